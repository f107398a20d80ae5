#!/usr/bin/env python3
"""Runs the end-to-end tests: the real binary over loopback, real clients.

Usage: .venv/bin/python3 tests/run_e2e.py [-v] [NAME...]; BATON names another binary than
build/release/baton. Prints "Ran N tests".
"""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def main():
    verbose = "-v" in sys.argv
    names = [argument for argument in sys.argv[1:] if argument != "-v"]
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(str(HERE), pattern="*_e2e.py")
    result = unittest.TextTestRunner(verbosity=2 if verbose else 1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
