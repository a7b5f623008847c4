#!/bin/sh
# A trainer that ends before it begins, or cannot be started.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .

# trainspool-train, which does what the first line of the file `faults` says, until there is none
mkdir bin
ln "$trainspool" bin/trainspool 2>/dev/null || cp "$trainspool" bin
cat >bin/trainspool-train <<END
#!/bin/sh
case \$* in
*--frozen*)
    how=\$(sed -n 1p "$T/faults")
    sed -i 1d "$T/faults"
    case \$how in
    exit*) exit \${how#exit} ;;
    ?*) kill -\$how \$\$ ;;
    esac
    ;;
esac
exec "$train" "\$@"
END
chmod +x bin/trainspool-train
crashes() { sed -n 's/.*"crashes":\([0-9]*\).*/\1/p' "$1.run/state.json"; }
mkdir early
cp text.txt early
printf '%s\n' KILL exit3 exit75 exit127 TERM >faults
job 2 >early/a.yaml
job 2 'trainspool: {max_retries: 1}' >early/b.yaml
try timeout 120 bin/trainspool watch --once early
ok $status "a job whose trainer ends before it begins is started again"
expect "a trainer that ends before it begins is a crash" test "$(crashes early/a)" -eq 2
expect "a fault of the machine is no crash" state_is early/b.yaml done
printf '%s\n' KILL KILL >faults
job 3 'trainspool: {max_retries: 1}' >early/b.yaml
expect_status "a job whose trainer never begins fails after max_retries" 1 timeout 120 bin/trainspool watch --once early
expect "the reason counts the crashes" sh -c 'grep -q "before it began; gave up after 2 crashes" early/b.run/state.json'
: >faults

# trainspool-train is replaced
mkdir replaced
cp text.txt replaced
background bin/trainspool watch replaced
wait_until 10 grep -q 'info watch: replaced' daemon.log
mv bin/trainspool-train bin/old
for name in a b; do
    job 2 >$name.yaml
    mv $name.yaml replaced/
done
wait_until 10 grep -q 'watch: no job starts: cannot start .*/trainspool-train: No such file' daemon.log
ok $? "a missing trainspool-train pauses the queue"
wait_until 5 grep -q 'No such file' replaced/a.run/state.json
try "$trainspool" status replaced
expect_output "status shows why a job does not start" 'a  *ready .*cannot start .*trainspool-train'
mv bin/old bin/trainspool-train
for name in a b; do
    wait_until 15 state_is replaced/$name.yaml done
    ok $? "job $name runs when trainspool-train is there again"
    expect "job $name has no crash" test "$(crashes replaced/$name)" -eq 0
done
expect "the watch reports the end of the fault" grep -q 'watch: jobs start again' daemon.log
expect "the reason is logged once" test "$(grep -c 'watch: no job starts' daemon.log)" -eq 1
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
plan
