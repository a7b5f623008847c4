# tests/cli/users.sh - for tests of root's watch with two other users. Source it after lib.sh.
cd "$T" || exit 99
chmod 755 .
umask 022
one=4711 two=4712
as() { # USER COMMAND...
    as_user=$1
    shift
    setpriv --reuid "$as_user" --regid "$as_user" --clear-groups "$@"
}
if [ "$(id -u)" -ne 0 ] || ! as $one test -x "$train" 2>/dev/null; then
    echo "1..0 # SKIP requires root, setpriv, and programs that others can run"
    exit 0
fi
require_model() { # skip the test unless there is a model that they can read
    as $one test -r "$model/config.json" && return
    echo "1..0 # SKIP no $model that others can read"
    exit 0
}
