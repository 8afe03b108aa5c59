# demo.sh SOURCE: `make demo`'s script runs within its minute, and its tables show the naive form failing and the library right.
cd "$1" || exit 1
before=$(date +%s)
output=$(BUILD=$SOFTMAX_BUILD bash examples/demo.sh) || { echo "$output"; echo "FAILED: the demo failed"; exit 1; }
after=$(date +%s)
echo "$output"
fail()
{
    echo "FAILED: $1"
    exit 1
}
[ $((after - before)) -le 60 ] || fail "it took $((after - before)) s, not a minute at most"
echo "$output" | grep -qE '^naive +[0-9]+ wrong' || fail "no row shows the naive form failing"
echo "$output" | grep -qE '^libsoftmax ' || fail "no row of the library"
echo "$output" | grep -E '^libsoftmax ' | grep -vE '^libsoftmax [a-z0-9]+ +ok +([01]\.[0-9]+|2\.0[0-9]+) ' &&
    fail "a row of the library is not ok and within 2.1 ULP"
echo "$output" | grep -qE '^mean loss [0-9.]+ nats: perplexity 2776 of 30522 words' || fail "the perplexity is not the one of the data"
echo "$output" | grep -qE '^8\.496708[0-9]*e-18$' || fail "the confident loss is not 8.4967e-18"
echo "$((after - before)) s"
