#!/bin/sh
# call.sh FUNCTION [ARGUMENT...]: run a function of gpu.sh as a program, so that timeout can run it.
. "$(dirname "$0")/gpu.sh"
"$@"
