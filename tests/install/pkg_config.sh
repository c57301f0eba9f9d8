#!/usr/bin/env bash
# Builds and runs a C++ and a C program with a compiler and the flags of pkg-config alone.
# pkg_config.sh PKG_CONFIG --static|--shared LIBDIR VERSION CXX CXX_SOURCE CC C_SOURCE OUTPUT_FOLDER
set -euo pipefail
pkg_config=$1 mode=$2 libdir=$3 version=$4 cxx=$5 cxx_source=$6 cc=$7 c_source=$8 out=$9

export PKG_CONFIG_PATH=$libdir/pkgconfig
run_path=()
if [ "$mode" = --shared ]; then
  mode=
  run_path=("-Wl,-rpath,$libdir")
fi

read -ra flags <<<"$("$pkg_config" $mode --cflags --libs rapt)"
strict=(-Wall -Wextra -Wconversion -Werror)

"$cxx" -std=c++20 "${strict[@]}" "$cxx_source" -o "$out/consumer_cxx" "${flags[@]}" "${run_path[@]}"
"$out/consumer_cxx"

# cc links the C program and adds no C++ run time of its own.
"$cc" -std=c99 "${strict[@]}" "$c_source" -o "$out/consumer_c" "${flags[@]}" "${run_path[@]}" -lm
"$out/consumer_c"

for package in rapt rapt-io rapt-nn rapt-checkpoint rapt-generation rapt-model rapt-text rapt-training rapt-viz; do
  "$pkg_config" $mode --exists --print-errors "$package = $version"
done
