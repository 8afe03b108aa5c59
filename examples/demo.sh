#!/bin/bash
# The demo: softmax on real scores, with proof beside it. `make demo` builds and runs it; BUILD names another build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
softmax=$build/softmax
data=examples/data
[ -x "$softmax" ] || { echo "demo: $softmax is not there; 'make demo' builds it" >&2; exit 1; }
if [ -z "${SOFTMAX_PYTHON:-}" ] && [ -x "$build/venv/bin/python" ]; then
    export SOFTMAX_PYTHON=$build/venv/bin/python # made by `make setup`, with NumPy
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heading()
{
    printf '\n\033[1m%s\033[0m\n' "$1" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9]*m//g'; }
    shift
    printf '%s\n' "$@"
}

show() # prints the command as one would type it, then runs it
{
    printf '$ softmax %s\n' "${*//$work\//}"
    "$softmax" "$@"
}

heading "1. Attention" \
    "Scores of MiniLM's last layer: 8 sentences, 12 heads, 44 queries, 44 keys, with the mask of the padding."
show run --mask $data/attention_mask.npy $data/attention_scores.npy -o "$work/attention.npy"
show compare --mask $data/attention_mask.npy $data/attention_scores.npy

heading "2. The same scores, sharpened" \
    "Temperature 1/20 (--scale 20): some scores pass 88.7, where exp overflows float32. The naive form fails;" \
    "the three-pass forms lose digits, for they round 20 x and x - max first."
show compare --scale 20 --mask $data/attention_mask.npy $data/attention_scores.npy

heading "3. Logits over a vocabulary" \
    "8 words against all 30,522 words that MiniLM knows."
show run $data/logits.npy -o "$work/probabilities.npy"
show compare $data/logits.npy

heading "4. Cross-entropy" "The loss of those logits with the words that were there, and its gradient, in one call."
show run --op cross_entropy --targets $data/targets.npy --gradient "$work/gradient.npy" $data/logits.npy | tee "$work/loss.txt"
awk '!/^\$/ { printf "mean loss %s nats: perplexity %.0f of 30522 words\n", $1, exp($1) }' "$work/loss.txt"
show compare --op cross_entropy --targets $data/targets.npy $data/logits.npy

heading "5. A confident model" "Logits 40, 0, 0 and target 0: the loss is 8.4967e-18, not 0."
{
    header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header"
    printf '\0\0\x20\x42\0\0\0\0\0\0\0\0' # 40, 0, 0 in float32
} >"$work/confident.npy"
{
    header="{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header"
    printf '\0\0\0\0'
} >"$work/target.npy"
printf '$ softmax run --op cross_entropy --targets target.npy confident.npy\n'
"$softmax" run --op cross_entropy --targets "$work/target.npy" "$work/confident.npy"

heading "How to read the tables" \
    "special rows   NaN, infinity or 0 where a number is right, or the other way round" \
    "max, mean ULP  errors against exact results, in units of the result's last digit; 0.5 is a rounding" \
    "bits           equal hashes are equal results, bit for bit" \
    "of copy        speed as a share of a memcpy of the same bytes, measured in between" \
    "The references and NumPy get scores with scale and mask worked in before the clock starts."
