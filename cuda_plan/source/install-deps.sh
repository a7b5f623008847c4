#!/bin/sh
# Install what building trainspool takes, on Debian 12 or a system like it; with --tests, what
# more its tests compare it with.
# Does nothing, and needs no rights, where all is there.
# shellcheck disable=SC2086
set -eu

needed='gcc g++ libc6-dev make autoconf automake pkg-config libyaml-dev libjansson-dev libpcre2-dev
        libutf8proc-dev nettle-dev zlib1g-dev libcmocka-dev jq'
wanted='libdnnl2' # oneDNN, found at run time: faster on a CPU
# Other readers of YAML, of schemas, of pages and of completions; tests that miss them skip.
[ "${1-}" != --tests ] || wanted="$wanted python3 python3-venv python3-yaml python3-jsonschema chromium zsh"

missing() { # PACKAGES
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *'ok installed') ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    else
        echo "install-deps: neither root nor sudo here; as root: apt-get install $absent" >&2
        return 1
    fi
}

apt() {
    as_root apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

# The lists of packages may be absent or old: then they are fetched, and it is tried again.
install() { # PACKAGES
    ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt update || true
    for wait in 5 20 0; do
        apt install --no-install-recommends "$@" && return
        sleep $wait
        apt update || true
    done
    return 1
}

if ! command -v apt-get >/dev/null; then
    echo "install-deps: no apt-get here; the packages of Debian are:" $needed $wanted >&2
    exit 0
fi
absent=$(missing $needed)
[ -z "$absent" ] || install $absent
absent=$(missing $wanted)
[ -z "$absent" ] || install $absent || echo "install-deps: going on without $absent" >&2
