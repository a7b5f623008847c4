#!/bin/sh
# call.sh FUNCTION [ARGUMENT...]: one of gpu.sh as a program, for timeout.
. "$(dirname "$0")/gpu.sh"
"$@"
