#!/bin/sh
# The compiler without the sanitizers that the calling process has preloaded, which would make it many times slower.
exec env -u LD_PRELOAD g++ "$@"
