#!/bin/sh
# curve.sh MODEL: tests/golden/curve.json once more by the PyTorch of this machine, and how far
# the two are from each other.
curve=${BUILD:-.}/curve.json
"${PYTHON:-python3}" tests/golden/curve.py "$1" >"$curve" || exit
"${PYTHON:-python3}" - "$curve" tests/golden/curve.json <<'END'
import json, sys
here, golden = (json.load(open(name))["curve"] for name in sys.argv[1:])
worst = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(here, golden))
print(f"largest difference of a loss from tests/golden/curve.json: {worst:.2e}")
sys.exit(worst > 1e-3 or len(here) != len(golden))
END
