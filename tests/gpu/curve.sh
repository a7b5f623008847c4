#!/bin/sh
# curve.sh MODEL: repeat tests/golden/curve.json with the PyTorch of this machine and print the
# difference between the two.
curve=${BUILD:-.}/curve.json
"${PYTHON:-python3}" tests/golden/curve.py "$1" >"$curve" || exit
"${PYTHON:-python3}" - "$curve" tests/golden/curve.json <<'END'
import json, sys
here, golden = (json.load(open(name))["curve"] for name in sys.argv[1:])
worst = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(here, golden))
print(f"largest difference of a loss from tests/golden/curve.json: {worst:.2e}")
sys.exit(worst > 1e-3 or len(here) != len(golden))
END
