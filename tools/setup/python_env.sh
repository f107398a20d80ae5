#!/usr/bin/env bash
# Makes .venv/ with the Python packages that the tests use (PyPI). Quick when it is there already
# and the list has not changed.
set -euo pipefail
cd "$(dirname "$0")/../.."

list=tools/setup/python_packages.txt
stamp=.venv/installed.txt
if [ -x .venv/bin/python3 ] && cmp -s "$list" "$stamp"; then exit 0; fi

python3 -m venv .venv
.venv/bin/python3 -m pip install --quiet --disable-pip-version-check -r "$list"
cp "$list" "$stamp"
