#!/usr/bin/env bash
# Builds the CUDA tests here and packs them for a GPU machine that has a driver and nothing else:
# cuda-carry.tar.xz with bin/ (stripped programs) and lib/ (shared libraries that such a machine
# may lack). Needs nvcc, no GPU. See README.md.
#
#   tools/device/build_cuda_carry.sh [DIRECTORY]       default: build/cuda-carry
set -euo pipefail
cd "$(dirname "$0")/../.."
carry=${1:-build/cuda-carry}
jobs=${JOBS:-$(nproc)}
# What every machine with glibc and a C++ compiler's runtime has.
everywhere='linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so'

export PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "build_cuda_carry: nvcc not found" >&2; exit 2; }
cmake --preset cuda >/dev/null
tests="cuda_device_test kernels_test cuda_conformance_test model_parity_test device_equality_test"
programs="decode_latency"
if ninja -C build/cuda -t query baton >/dev/null 2>&1; then programs+=" baton"; fi
# shellcheck disable=SC2086
cmake --build build/cuda -j "$jobs" --target $tests $programs

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
mkdir -p "$carry" "$unpacked/bin" "$unpacked/lib"
for name in $tests $programs; do
  from=$(find build/cuda -name "$name" -type f -perm -u+x | head -n 1)
  strip -o "$unpacked/bin/$name" "$from"
  while read -r library path; do
    [[ $library =~ $everywhere ]] || cp -Lu "$path" "$unpacked/lib/$library"
  done < <(ldd "$from" | awk '$2 == "=>" {print $1, $3}')
done
# The programs hold the same kernels: xz finds that, and 38 MB become 6.
tar -C "$unpacked" -c bin lib | xz -T0 >"$carry/cuda-carry.tar.xz"
ls -l "$unpacked/bin" "$unpacked/lib" | awk 'NF > 8 {printf "  %9d %s\n", $5, $9}'
echo "packed into $carry/cuda-carry.tar.xz: $(du -h "$carry/cuda-carry.tar.xz" | cut -f1)"
