# shellcheck shell=bash
# packages.sh - Debian packages, without side effects: no service is started, no PostgreSQL cluster is created, and what stood before stays.

packages_of() { # packages_of KIND...
	local kind
	for kind; do
		sed -n "s/^$kind //p" "$here/lib/packages.list"
	done
}

packages_missing() {
	local p
	for p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || printf '%s\n' "$p"
	done
}

# Units that packages of the list enable by themselves; those that are new with our installation are disabled again.
package_units=(nginx.service podman.service podman.socket podman-restart.service podman-auto-update.service podman-auto-update.timer)

packages_disable_new_units() {
	local u
	for u in "${package_units[@]}"; do
		[[ " $1 " == *" $u "* ]] || systemctl disable "$u" >/dev/null 2>&1 || true
	done
	[[ " $1 " == *" nginx.service "* ]] || ! command -v update-rc.d >/dev/null || update-rc.d nginx disable >/dev/null 2>&1 || true
}

units_present() {
	local u
	for u in "${package_units[@]}"; do
		[ ! -e "/lib/systemd/system/$u" ] || printf '%s ' "$u"
	done
}

# Our own policy-rc.d and createcluster.d drop-in exist for the time of the installation only.
packages_guard_on() {
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\n# made by Paddock for the time of one installation\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod 755 /usr/sbin/policy-rc.d
		guard_policy=yes
	fi
	mkdir -p /etc/postgresql-common/createcluster.d
	printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.d/paddock.conf
}

packages_guard_off() {
	[ -z "${guard_policy:-}" ] || rm -f /usr/sbin/policy-rc.d
	rm -f /etc/postgresql-common/createcluster.d/paddock.conf
	rmdir --ignore-fail-on-non-empty -p /etc/postgresql-common/createcluster.d 2>/dev/null || true
}

packages_install() { # packages_install KIND...
	local wanted missing before
	mapfile -t wanted < <(packages_of "$@")
	mapfile -t missing < <(packages_missing "${wanted[@]}")
	[ ${#missing[@]} -gt 0 ] || return 0
	step "Debian packages: ${missing[*]}"
	before=$(units_present)
	trap packages_guard_off EXIT
	packages_guard_on
	export DEBIAN_FRONTEND=noninteractive
	local log
	log=$(mktemp /tmp/paddock-apt.XXXXXX)
	quietly "$log" apt-get -q update
	quietly "$log" apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-confold install "${missing[@]}"
	rm -f "$log"
	packages_guard_off
	trap - EXIT
	packages_disable_new_units "$before"
}
