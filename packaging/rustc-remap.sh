#!/bin/sh
# A RUSTC_WRAPPER that leaves no path of this machine in what rustc writes. In RUSTFLAGS, the paths would be part of the hash
# of each unit, hence of the directory of generated code, which messages of panics contain.
root=$(cd "${0%/*}/.." && pwd -P)
exec "$@" "--remap-path-prefix=$root=/src" "--remap-path-prefix=${CARGO_TARGET_DIR:-$root/target}=/src/target" \
  "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
