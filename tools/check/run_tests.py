#!/usr/bin/env python3
"""Builds Baton and runs every check: lint, unit tests, sanitizers, Python tools, end to end, CUDA.

The one script behind `make test` and CI. Ends with a table and the line "N passed, N failed, N
skipped"; the exit code is 0 only if nothing failed.

  --only NAME[,NAME]   run only these suites (see SUITES at the end of the file)
  --fast               release unit tests and lint only
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import tidy_cache

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Clones of one commit in different folders share the compiler cache.
os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
os.environ.setdefault("CCACHE_NOHASHDIR", "1")
JOBS = str(os.cpu_count() or 2)


class Tally:
    def __init__(self):
        self.rows = []  # (suite, passed, failed, skipped, seconds)
        self.failures = []

    def add(self, suite, passed, failed, skipped, seconds, detail=""):
        self.rows.append((suite, passed, failed, skipped, seconds))
        state = "FAILED" if failed else "ok"
        print(f"  {suite:<34} {state:<7} {passed} passed, {failed} failed, "
              f"{skipped} skipped  {seconds:.1f} s", flush=True)
        if failed:
            self.failures.append((suite, detail))


def run(command, timeout=1500, env=None):
    """Runs a command in the repository root; returns (exit code, output)."""
    if shutil.which(str(command[0])) is None:
        return 127, f"{command[0]}: not installed"
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout, env={**os.environ, **(env or {})})
        return done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as error:
        return 124, (error.stdout or b"").decode("utf-8", "replace") + f"\ntimed out after {timeout} s"


def gtest_counts(code, output):
    passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", output))
    failed = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) test", output))
    skipped = sum(int(n) for n in re.findall(r"\[  SKIPPED \] (\d+) test", output))
    if code != 0 and failed == 0:
        failed = 1  # crashed, timed out or did not start
    return passed, failed, skipped


def build(tally, preset, targets=None, timeout=2400):
    start = time.time()
    code, output = run(["cmake", "--preset", preset], timeout=300)
    if code == 0:
        command = ["cmake", "--build", f"build/{preset}", "-j", JOBS]
        if targets:
            command += ["--target", *targets]
        code, output = run(command, timeout=timeout)
    tally.add(f"build {preset}", int(code == 0), int(code != 0), 0, time.time() - start,
              output[-6000:])
    return code == 0


def ctest_commands(preset):
    code, output = run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"])
    if code != 0:
        return []
    tests = json.loads(output[output.index("{"):])["tests"]
    return [(t["name"], t["command"]) for t in tests if "command" in t]


def unit_suite(tally, preset, only=None, env=None):
    for name, command in ctest_commands(preset):
        if only and name not in only:
            continue
        if not pathlib.Path(command[0]).exists():
            continue
        start = time.time()
        code, output = run(command + ["--gtest_brief=1"], timeout=900, env=env)
        tally.add(f"{preset}/{name}", *gtest_counts(code, output), time.time() - start,
                  output[-6000:])


def lint(tally):
    for name, command in [
        ("layers", [sys.executable, "tools/lint/layers.py"]),
        ("text rules", [sys.executable, "tools/lint/text_rules.py"]),
    ]:
        start = time.time()
        code, output = run(command)
        tally.add(f"lint: {name}", int(code == 0), int(code != 0), 0, time.time() - start, output)
    start = time.time()
    if " 14." not in run(["clang-format", "--version"])[1]:  # other versions differ in small ways
        tally.add("lint: format (needs 14)", 0, 0, 1, 0.0)
        return
    code, files = run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"])
    code, output = run(["clang-format", "--dry-run", "-Werror", *files.split()])
    tally.add("lint: format", int(code == 0), int(code != 0), 0, time.time() - start, output[-3000:])


def release(tally):
    if build(tally, "release"):
        unit_suite(tally, "release")


# Built with sanitizers: the parts that own memory, parse what comes from outside, or have threads.
ADDRESS_TESTS = ["base_test", "device_test", "kv_cache_test", "scheduler_test", "engine_test",
                 "model_weights_test", "model_config_test", "text_test", "text_output_test",
                 "server_test"]
THREAD_TESTS = ["base_test", "engine_test", "server_test"]


def known_targets(preset, wanted):
    code, output = run(["cmake", "--preset", preset], timeout=300)
    if code != 0:
        return wanted
    code, output = run(["ninja", "-C", f"build/{preset}", "-t", "targets", "all"])
    return [t for t in wanted if re.search(rf"^(\S+/)?{t}: ", output, re.M)]


def sanitizers(tally):
    for preset, wanted, env in [
        ("dev", ADDRESS_TESTS, {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}),
        ("tsan", THREAD_TESTS, {"TSAN_OPTIONS": "halt_on_error=1"}),
    ]:
        targets = known_targets(preset, wanted)
        if build(tally, preset, targets):
            unit_suite(tally, preset, targets, env)


def unittest_counts(code, output):
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests?", output, re.M))
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", output))
    skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", output))
    if code != 0 and failed == 0:
        failed = 1
    return max(ran - failed - skipped, 0), failed, skipped


def python_env():
    """The interpreter of .venv (tools/setup/python_env.sh makes it), or None with the reason."""
    code, output = run(["bash", "tools/setup/python_env.sh"], timeout=600)
    python = ROOT / ".venv/bin/python3"
    return (str(python), "") if code == 0 and python.exists() else (None, output)


def python_tools(tally):
    python, why = python_env()
    if python is None:
        tally.add("python environment", 0, 1, 0, 0.0, why)
        return
    for test in sorted(ROOT.glob("tools/**/*_test.py")):
        start = time.time()
        name = test.relative_to(ROOT)
        code, output = run([python, "-m", "unittest", "discover", "-s", str(name.parent),
                            "-p", name.name], timeout=600)
        tally.add(str(name), *unittest_counts(code, output), time.time() - start, output[-4000:])


def end_to_end(tally):
    python, why = python_env()
    if python is None:
        tally.add("end to end", 0, 1, 0, 0.0, why)
        return
    start = time.time()
    code, output = run([python, "tests/run_e2e.py"], timeout=1500)
    tally.add("end to end", *unittest_counts(code, output), time.time() - start, output[-8000:])


def cuda(tally):
    nvcc = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc"
                                    if pathlib.Path("/usr/local/cuda/bin/nvcc").exists() else None)
    if nvcc is None:
        tally.add("cuda (no nvcc here)", 0, 0, 1, 0.0)
        return
    os.environ["PATH"] += os.pathsep + str(pathlib.Path(nvcc).parent)
    wanted = known_targets("cuda", ["kernels_test", "device_test", "cuda_device_test",
                                    "cuda_conformance_test"])
    if build(tally, "cuda", wanted):
        unit_suite(tally, "cuda", [t for t in wanted if "cuda" in t])


def tidy_findings(output):
    """Distinct findings; output without any (the tool failed) as it is."""
    return set(re.findall(r"^\S+: (?:error|warning): .*$", output, re.M)) or {output} - {""}


def tidy(tally):
    """clang-tidy over the sources of the release build, one row per folder."""
    if " 14." not in run(["clang-tidy", "--version"])[1]:  # other versions know other checks
        tally.add("tidy (needs 14)", 0, 0, 1, 0.0)
        return
    run(["cmake", "--preset", "release"], timeout=300)
    cache = tidy_cache.TidyCache(ROOT, "build/release")
    code, listed = run(["git", "ls-files", "src/*.cpp", "apps/*.cpp"])
    by_folder = {}
    for name in listed.split():
        if name not in cache.commands or re.search(r"(_test|_benchmark)\.cpp$|/cuda/|/testing/|/cases/", name):
            continue
        folder = "/".join(name.split("/")[:2]) if name.startswith("src/") else "apps"
        by_folder.setdefault(folder, []).append(name)
    with concurrent.futures.ThreadPoolExecutor(int(JOBS)) as pool:
        for folder, files in by_folder.items():
            start = time.time()
            found = sorted(set().union(*map(tidy_findings, pool.map(cache.check, files))))
            tally.add(f"tidy {folder}", int(not found), int(bool(found)), 0, time.time() - start,
                      "\n".join(found))


SUITES = {"lint": lint, "tidy": tidy, "release": release, "python": python_tools, "e2e": end_to_end,
          "sanitizers": sanitizers, "cuda": cuda}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="comma separated: " + ", ".join(SUITES))
    parser.add_argument("--fast", action="store_true")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else ["lint", "release"] if args.fast else list(SUITES)
    unknown = [n for n in names if n not in SUITES]
    if unknown:
        parser.error(f"unknown suite {unknown[0]}: expected one of {', '.join(SUITES)}")

    tally = Tally()
    for name in names:
        print(f"{name}:", flush=True)
        SUITES[name](tally)
    for suite, detail in tally.failures:
        print(f"\n---- {suite}\n{detail}")
    passed, failed, skipped = (sum(row[i] for row in tally.rows) for i in (1, 2, 3))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
