#!/bin/sh
# Cargo with the compiler's options for the programs in images: static, and without paths and times of this machine. Everything
# in the release profile is built with these options, so that each crate is compiled once, and what is measured is what users get.
#
# mimalloc contains the time of its compilation. With the time of the commit, each commit would compile all C again.
RUSTC_WRAPPER=$(cd "${0%/*}" && pwd -P)/rustc-remap.sh
export RUSTC_WRAPPER RUSTFLAGS="-C target-feature=+crt-static" SOURCE_DATE_EPOCH=0
exec cargo "$@"
