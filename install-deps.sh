#!/bin/sh
# Install the packages that the build of trainspool requires, on Debian 12 or a similar system;
# with --tests, also the packages that the tests use.
# Does nothing, and needs no root rights, if all packages are installed.
# shellcheck disable=SC2086
set -eu

# The name of oneDNN's package contains its version: libdnnl2 on Debian 12, libdnnl3.6 on 13.
onednn() {
    { apt-cache pkgnames libdnnl 2>/dev/null; echo libdnnl2; } |
        grep -E '^libdnnl[0-9][0-9.]*$' | sort -V | tail -n 1
}

needed='gcc g++ libc6-dev make autoconf automake pkg-config libyaml-dev libjansson-dev libpcre2-dev
        libutf8proc-dev nettle-dev zlib1g-dev libsnappy-dev libzstd-dev liblz4-dev
        libcmocka-dev jq'
# Decoders of sound and images; a build without one refuses such files.
decoders='libsndfile1-dev libjpeg-dev libpng-dev libwebp-dev'
# The parser of Python scripts comes from Python's package index, through pip.
scripts='python3 python3-venv'
# Independent readers of YAML, schemas, pages and completions, and the formatter; tests that lack
# one of these are skipped.
optional=
[ "${1-}" != --tests ] ||
    optional="python3 python3-venv python3-yaml python3-jsonschema chromium zsh clang-format logrotate systemd
              strace faketime munge slurmctld slurmd slurm-client openmpi-bin
              sshfs openssh-sftp-server iproute2"

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
        echo "install-deps: cannot install packages: not root, and no sudo; run as root: apt-get install $absent" >&2
        return 1
    fi
}

apt() {
    as_root apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

# If the package lists are missing or outdated, fetch them and try again.
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
    echo "install-deps: apt-get not found; the Debian packages are:" $needed $decoders libdnnl2 $scripts $optional >&2
    exit 0
fi
absent=$(missing $needed)
[ -z "$absent" ] || install $absent
# Install these one at a time, so that an unavailable package does not block the others.  oneDNN is
# loaded at run time and speeds up training on a CPU.
for package in $decoders $(onednn) $scripts $optional; do
    absent=$(missing $package)
    [ -z "$absent" ] || install $absent || echo "install-deps: continuing without $absent" >&2
done
folder=$(dirname "$0")
"$folder/patcher/script/grammar.sh" "$folder/build-grammar" ||
    echo 'install-deps: cannot fetch the parser of Python: this build will not read scripts' >&2
