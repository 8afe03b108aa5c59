# expect_output.sh EXPECTED PROGRAM [ARGUMENT...]: the program succeeds and prints exactly the file.
expected=$1
shift
output=$("$@" 2>&1; echo "exit status $?")
if [ "$output" = "$(cat "$expected"; echo "exit status 0")" ]; then
    echo "$1 printed what $expected holds"
    exit 0
fi
echo "FAILED: $1 printed"
echo "$output"
echo "instead of"
cat "$expected"
exit 1
