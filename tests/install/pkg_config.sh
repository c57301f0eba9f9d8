#!/usr/bin/env bash
# Builds and runs consumer.cpp with nothing but a compiler and what pkg-config says.
# pkg_config.sh PKG_CONFIG --static|--shared LIBDIR VERSION COMPILER CONSUMER OUTPUT_FOLDER
set -euo pipefail
pkg_config=$1 mode=$2 libdir=$3 version=$4 compiler=$5 consumer=$6 out=$7

export PKG_CONFIG_PATH=$libdir/pkgconfig
run_path=()
if [ "$mode" = --shared ]; then
  mode=
  run_path=("-Wl,-rpath,$libdir")
fi

# Unquoted: pkg-config answers in words of a command line.
# shellcheck disable=SC2046,SC2086
"$compiler" -std=c++20 -Wall -Wextra -Wconversion -Werror "$consumer" -o "$out/consumer_pkg_config" \
  $("$pkg_config" $mode --cflags --libs rapt) "${run_path[@]}"
"$out/consumer_pkg_config"

for package in rapt rapt-io rapt-viz; do
  "$pkg_config" $mode --exists --print-errors "$package = $version"
done
