# shellcheck shell=bash
# accounts.sh - the two accounts, their subordinate ids, and the directories they own.

account() { # account NAME HOME COMMENT
	getent passwd "$1" >/dev/null ||
		useradd --system --user-group --home-dir "$2" --no-create-home --shell /usr/sbin/nologin --comment "$3" "$1"
}

# A free range of 65,536 subordinate ids; the same for uids and gids.
subids() {
	local who=$1 start
	if grep -q "^$who:" /etc/subuid 2>/dev/null && grep -q "^$who:" /etc/subgid 2>/dev/null; then
		return
	fi
	touch /etc/subuid /etc/subgid
	start=$(awk -F: 'BEGIN { m = 524288 } { e = $2 + $3; if (e > m) m = e } END { print m }' /etc/subuid /etc/subgid)
	sed -i "/^$who:/d" /etc/subuid /etc/subgid
	usermod --add-subuids "$start-$((start + 65535))" --add-subgids "$start-$((start + 65535))" "$who"
}

accounts_make() {
	step "accounts $acct, $acct_api"
	if have_systemd && [ -z "$instance" ]; then
		render "$here/systemd/paddock.sysusers.in" | put /usr/lib/sysusers.d/paddock.conf 644 root:root || true
		systemd-sysusers /usr/lib/sysusers.d/paddock.conf
	fi
	account "$acct" "$lib/engine/home" "Paddock executor and containers"
	account "$acct_api" /nonexistent "Paddock API workers"
	subids "$acct"
}

directories_make() {
	step "directories"
	dir "$prefix" 755 root:root
	dir "$etc" 755 root:root
	dir "$etc/keys" 750 "root:$acct_api"
	dir "$etc/tls" 750 root:www-data
	dir "$lib" 755 root:root
	dir "$lib/build" 755 root:root
	dir "$lib/pg" 700 postgres:postgres
	dir "$lib/executor" 700 "$acct:$acct"
	dir "$lib/workspaces" 2751 "$acct:www-data"
	dir "$lib/sandboxes" 700 "$acct:$acct"
	dir "$lib/engine" 700 "$acct:$acct"
	dir_as "$acct" "$lib/engine/home" 700
	dir "$lib/nginx" 755 root:root
	local t
	for t in body fastcgi proxy scgi uwsgi; do
		dir "$lib/nginx/$t" 700 www-data:root
	done
	dir "$logdir" 755 root:root
}
