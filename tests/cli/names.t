#!/bin/sh
# A watch forgets the names of files that are gone.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool
background "$trainspool" watch -v spool
wait_until 30 grep -q 'watch: spool, pid' daemon.log
for i in 1 2 3; do
    invalid_job >job$i.yaml
    mv job$i.yaml spool/
done
for i in 1 2 3; do wait_until 60 state_is spool/job$i.yaml rejected; done

# 20,000 names that come and go faster than they are examined.
i=0
while [ $i -lt 20 ]; do
    i=$((i + 1))
    (cd spool && seq -f "a$i-%g.yaml" 1000 | xargs touch && seq -f "a$i-%g.yaml" 1000 | xargs rm)
done
counts() { sed -n 's/.*watch: \([0-9]*\) names forgotten, \([0-9]*\) known/\1 \2/p' daemon.log; }
forgotten() { counts | awk '{ sum += $1 } END { print sum + 0 }'; }
has_forgotten() { : >spool/.trainspool/wake && [ "$(counts | tail -1 | cut -d' ' -f2)" = 3 ]; }
wait_until 60 has_forgotten
ok $? "only the names of the files that are there are left"
expect "thousands were known" test "$(forgotten)" -ge 1000
rm spool/job1.yaml
has_forgotten_it() { : >spool/.trainspool/wake && [ "$(counts | tail -1)" = "1 2" ]; }
wait_until 60 has_forgotten_it
ok $? "so is that of a job whose file was removed"
invalid_job >job1.yaml
rm -r spool/job1.run
mv job1.yaml spool/
wait_until 60 state_is spool/job1.yaml rejected
ok $? "a forgotten name can come back"
kill -TERM "$daemon"
wait "$daemon"
plan
