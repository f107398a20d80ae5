#!/usr/bin/env bash
# Installs what Baton needs on Debian 12 or Ubuntu 24.04 (root, or sudo). Quick when all is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Through env: sudo clears the environment, and Ubuntu would then ask which services to restart.
apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get)
if [ "$(id -u)" -ne 0 ]; then apt=(sudo "${apt[@]}"); fi

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=()
while IFS= read -r line; do
  line="${line%%#*}"
  [ -n "${line// /}" ] || continue
  IFS='|' read -ra names <<<"${line// /}"
  found=""
  for name in "${names[@]}"; do
    if installed "$name"; then found=yes; fi
  done
  [ -n "$found" ] || missing+=("${names[*]}")
done <tools/setup/apt_packages.txt

if [ "${#missing[@]}" -gt 0 ]; then
  echo "setup: installing ${#missing[@]} packages"
  "${apt[@]}" update -qq
  wanted=()
  for entry in "${missing[@]}"; do
    choice=""
    for name in $entry; do
      if [ -z "$choice" ] && apt-cache show "$name" >/dev/null 2>&1; then choice="$name"; fi
    done
    if [ -z "$choice" ]; then
      echo "setup: no package found for: $entry" >&2
      exit 2
    fi
    wanted+=("$choice")
  done
  "${apt[@]}" install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
fi
for step in tools/setup/fetch_*.sh; do
  [ -e "$step" ] || continue
  bash "$step"
done
echo "setup: ready"
