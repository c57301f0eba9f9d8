#!/usr/bin/env bash
# fresh.sh [--keep] [COMMAND...]: does README.md work on a machine where nothing is installed?
#
# Makes an empty Debian 12 in a folder (debootstrap, minbase), clones this checkout's last commit
# into it and runs there what README.md tells a newcomer to run, or COMMANDs: .ci/run. Needs root,
# for chroot. Takes the package mirror, apt's settings and the certificates of this machine. --keep
# leaves the folder for a look.
set -euo pipefail

SUITE=bookworm
# What README.md asks for before the first command: enough to clone.
PACKAGES=(git ca-certificates)
COMMANDS=('./run demo' './run test')
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
keep=no
arguments=("$@")
if [ "${1:-}" = --keep ]; then
  keep=yes
  shift
fi
if [[ "${1:-}" == -* ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi

if [ "$(id -u)" != 0 ]; then
  echo "fresh.sh needs root, for debootstrap and chroot: sudo dev/fresh.sh" >&2
  exit 1
fi
if ! command -v debootstrap >/dev/null; then
  echo "fresh.sh needs debootstrap: apt-get install debootstrap" >&2
  exit 1
fi

# In a mount namespace of its own, so that whatever is mounted below ends with this script, however
# it ends.
if [ -z "${RAPT_FRESH_UNSHARED:-}" ]; then
  RAPT_FRESH_UNSHARED=1 exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "${arguments[@]}"
fi

for command in "${COMMANDS[@]}"; do
  if ! git -C "$repository" show HEAD:README.md | grep -qF -- "$command"; then
    echo "README.md does not show the command that is to be tried: $command" >&2
    exit 1
  fi
done
[ $# = 0 ] || COMMANDS=("$@")

started=$SECONDS
say() { printf '\n#### %s (after %d s)\n' "$*" $((SECONDS - started)); }

# The first Debian mirror of /etc/apt, in either format of its lists.
mirror=$(
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
    sed -nE 's/^deb +(\[[^]]*\] +)?([a-z]+:[^ ]+) .*/\2/p; s/^URIs: *([^ ]+).*/\1/p' |
    grep -m 1 -E '/debian/?$' || true
)
if [ -z "$mirror" ]; then
  echo "No Debian mirror found in /etc/apt/sources.list or /etc/apt/sources.list.d" >&2
  exit 1
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/rapt_fresh.XXXXXX")
clean_up() {
  local status=$?
  # Deepest first. What is mounted must be gone before anything is deleted.
  awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/self/mounts | tac |
    while read -r mounted; do umount "$mounted"; done
  if [ $keep = yes ]; then
    echo "Kept: $root; look around with: chroot $root"
  else
    rm -rf --one-file-system "$root"
  fi
  exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say "An empty Debian 12 in $root"
chmod 755 "$root"  # apt downloads as a user of its own
debootstrap --variant=minbase "$SUITE" "$root" "$mirror" >"$root/debootstrap.out" 2>&1 || {
  tail -n 20 "$root/debootstrap.out" >&2
  exit 1
}
rm "$root/debootstrap.out"

# The way to the mirror: names, apt's settings (proxies, say), and the certificates they name.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
grep -lE '^[[:space:]]*Acquire' /etc/apt/apt.conf.d/* 2>/dev/null |
  xargs -r cp -t "$root/etc/apt/apt.conf.d/"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind -o ro /sys "$root/sys"

# Nothing of this machine's environment but the way out.
inside() {
  local name passed=()
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY TERM; do
    [ -z "${!name:-}" ] || passed+=("$name=${!name}")
  done
  env -i "${passed[@]}" PIP_CERT="$CERTIFICATES" DEBIAN_FRONTEND=noninteractive \
    HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" bash -c "$1"
}

say "apt-get install ${PACKAGES[*]}"
inside "apt-get -qq update &&
        apt-get -qq install -y --no-install-recommends ${PACKAGES[*]} >/dev/null"
[ ! -e "$CERTIFICATES" ] || cp "$CERTIFICATES" "$root$CERTIFICATES"  # those of a proxy, say

say "git clone"
[ -z "$(git -C "$repository" status --porcelain)" ] ||
  echo "Uncommitted changes are not part of what is tried."
git clone --quiet --no-hardlinks "$repository" "$root/root/rapt"
if [ -d "$repository/../shared/data" ]; then
  mkdir -p "$root/root/shared"
  cp -r "$repository/../shared/data" "$root/root/shared/data"
fi

for command in "${COMMANDS[@]}"; do
  say "$command"
  inside "cd /root/rapt && $command"
done
say "Works on an empty Debian 12: ${COMMANDS[*]}"
