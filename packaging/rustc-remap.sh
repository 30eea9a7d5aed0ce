#!/bin/sh
# A RUSTC_WRAPPER that leaves no path of this machine in what rustc writes. In RUSTFLAGS, the paths would be part of the hash
# of each unit, hence of the directory of generated code, which messages of panics contain.
exec "$@" "--remap-path-prefix=$REMAP_ROOT=/src" "--remap-path-prefix=$REMAP_TARGET=/src/target" \
  "--remap-path-prefix=$REMAP_CARGO_HOME=/cargo"
