# shellcheck shell=bash
# common.sh - names, paths and messages that every part of set-up uses. Sourced, never run.
# An instance of the service is named by $PADDOCK_INSTANCE; empty is the normal one. Every name gets the suffix "-NAME".

instance=${PADDOCK_INSTANCE:-}
if [ -n "$instance" ]; then
	[[ $instance =~ ^[a-z][a-z0-9]{0,11}$ ]] && [ "$instance" != api ] || {
		echo "PADDOCK_INSTANCE: \"$instance\" is not a name of 1 to 12 lower-case letters and digits (nor \"api\")" >&2
		exit 2
	}
fi
sfx=${instance:+-$instance}
# The port once chosen is in the configuration.
port=${PADDOCK_HTTPS_PORT:-$(sed -n 's/^https_port *= *//p' "/etc/paddock$sfx/paddock.ini" 2>/dev/null || true)}
port=${port:-8443}
[[ $port =~ ^[1-9][0-9]{0,4}$ ]] && [ "$port" -le 65535 ] || { echo "PADDOCK_HTTPS_PORT: \"$port\" is not a port" >&2; exit 2; }

# shellcheck disable=SC2034 # used by the files that source this one
{
	prefix=/opt/paddock$sfx
	etc=/etc/paddock$sfx
	lib=/var/lib/paddock$sfx
	run=/run/paddock$sfx
	logdir=/var/log/paddock$sfx
	acct=paddock$sfx
	acct_api=paddock-api$sfx
	services=(db engine executor api nginx)
	ctl=/usr/local/bin/paddockctl$sfx
	man=/usr/local/share/man
}

say() { printf '%s\n' "$*"; }
step() { printf '\033[1m==>\033[0m %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Which provider the installation has, by its configuration.
is_host() { grep -q '^provider *= *host' "$etc/paddock.ini" 2>/dev/null; }

have_systemd() { [ -d /run/systemd/system ]; }

# Below which cgroup the containers come: with cgroup v2 under systemd the engine's delegated unit, else a directory of ours.
cgroup=/paddock$sfx
if have_systemd && [ "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then
	cgroup=/system.slice/paddock-engine$sfx.service/box
fi

# quietly LOG COMMAND...: output goes to LOG; shown when the command fails.
quietly() {
	local log=$1
	shift
	"$@" >"$log" 2>&1 </dev/null || {
		local rc=$?
		tail -n 40 "$log" >&2
		die "failed ($rc): $* (whole output: $log)"
	}
}

# render TEMPLATE: the template with @NAMES@ filled in, on standard output.
# A line @ONLY_WHAT:…@ is kept where WHAT (S6 or SYSTEMD, IPV6, HOST) is so.
render() {
	local drop=SYSTEMD no6=IPV6 nohost=HOST
	[ "${PADDOCK_PROVIDER:-}" != host ] || nohost=none
	! have_systemd || drop=S6
	[ ! -e /proc/net/if_inet6 ] || no6=none
	sed -e "/^@ONLY_$drop:/d" -e "/^@ONLY_$no6:/d" -e "/^@ONLY_$nohost:/d" -e "s/^@ONLY_[A-Z0-9]*:\(.*\)@\$/\1/" \
		-e "s|@SUFFIX@|$sfx|g" -e "s|@INSTANCE@|$instance|g" -e "s|@PORT@|$port|g" -e "s|@PGBIN@|${pgbin:-}|g" -e "s|@CGROUP@|$cgroup|g" "$1"
}

# put FILE MODE OWNER:GROUP <content: installs it when it differs; true when it changed.
put() {
	local file=$1 mode=$2 owner=$3 tmp
	tmp=$(mktemp "$file.XXXXXX")
	cat >"$tmp"
	chmod "$mode" "$tmp"
	chown "$owner" "$tmp"
	if [ -f "$file" ] && cmp -s "$tmp" "$file"; then
		chmod "$mode" "$file"
		chown "$owner" "$file"
		rm -f "$tmp"
		return 1
	fi
	mv -f "$tmp" "$file"
}

# dir PATH MODE OWNER:GROUP
dir() {
	[ -d "$1" ] || mkdir "$1"
	chown "$3" "$1"
	chmod "$2" "$1"
}

# dir_as ACCOUNT PATH MODE, put_as ACCOUNT FILE MODE <content: the same inside a directory that belongs to a service account. It may have put a
# link there, so root follows no path below it: the account itself does the work.
dir_as() {
	# shellcheck disable=SC2016 # expanded by that shell
	as "$1" sh -c '[ -d "$1" ] || mkdir "$1"; chmod "$2" "$1"' sh "$2" "$3"
}

put_as() {
	# shellcheck disable=SC2016 # expanded by that shell
	(umask 077 && as "$1" sh -c 'set -e
		cat >"$1.new"
		chmod "$2" "$1.new"
		mv -f "$1.new" "$1"' sh "$2" "$3")
}

as() { # as ACCOUNT COMMAND...: from /, as the account may not enter the directory where root is
	local who=$1
	shift
	(cd / && exec setpriv --reuid="$who" --regid="$who" --init-groups -- "$@")
}
