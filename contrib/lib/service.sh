# shellcheck shell=bash
# service.sh - the supervisor: systemd where it is process 1, else s6.

service_account() {
	case $1 in
	db) echo postgres ;;
	engine | executor) echo "$acct" ;;
	api) echo "$acct_api" ;;
	nginx) echo www-data ;;
	esac
}

# What decides whether a running service is the one that is installed.
service_digest() {
	local files=("$etc/paddock.ini")
	case $1 in
	db) files=("$lib/pg/pg_hba.conf" "$lib/pg/pg_ident.conf" "$lib/pg/paddock.conf") ;;
	engine)
		if is_host; then
			files+=("$prefix/libexec/paddock/paddock-launcher")
		else
			files=("$prefix/libexec/paddock/paddock-engine" "$etc/containers.conf" "$etc/storage.conf")
		fi
		;;
	executor) files+=("$prefix/sbin/paddock-executor" "$etc/seccomp.json" "$prefix/libexec/paddock/paddock-netguard") ;;
	api) files+=("$prefix/sbin/paddock-api" "$etc/keys/pepper") ;;
	nginx) files=("$etc/nginx.conf" "$etc/tls/cert.pem") ;;
	esac
	if have_systemd; then files+=("/etc/systemd/system/paddock-$1$sfx.service"); else files+=("$etc/s6/$1/run"); fi
	{ cat "${files[@]}" 2>/dev/null || true; } | sha256sum | cut -d' ' -f1
}

service_files_s6() {
	local s
	dir "$etc/s6" 755 root:root
	for s in "${services[@]}"; do
		mkdir -p "$etc/s6/$s/log"
		render "$here/s6/$s/run.in" | put "$etc/s6/$s/run" 755 root:root || true
		[ ! -f "$here/s6/$s/down-signal" ] || put "$etc/s6/$s/down-signal" 644 root:root <"$here/s6/$s/down-signal" || true
		[ ! -f "$here/s6/$s/finish.in" ] || render "$here/s6/$s/finish.in" | put "$etc/s6/$s/finish" 755 root:root || true
		render "$here/s6/log-run.in" | sed -e "s|@ACCOUNT@|$(service_account "$s")|g" -e "s|@SERVICE@|$s|g" |
			put "$etc/s6/$s/log/run" 755 root:root || true
		dir "$logdir/$s" 2750 "$(service_account "$s"):adm"
	done
}

service_files_systemd() {
	local s u=/etc/systemd/system
	for s in "${services[@]}"; do
		render "$here/systemd/paddock-$s.service.in" | put "$u/paddock-$s$sfx.service" 644 root:root || true
	done
	render "$here/systemd/paddock-prepare.service.in" | put "$u/paddock-prepare$sfx.service" 644 root:root || true
	render "$here/systemd/paddock.target.in" | put "$u/paddock$sfx.target" 644 root:root || true
	render "$here/systemd/paddock.tmpfiles.in" | put "/usr/lib/tmpfiles.d/paddock$sfx.conf" 644 root:root || true
	systemctl daemon-reload
	systemctl -q enable "paddock$sfx.target"
}

service_files() { if have_systemd; then service_files_systemd; else service_files_s6; fi; }

svscan_alive() { s6-svscanctl -a "$run/service" 2>/dev/null; }

service_supervisor() {
	"$prefix/libexec/paddock/paddock-prepare"
	have_systemd || svscan_alive || {
		(cd / && exec setsid env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 s6-svscan -t 5000 "$run/service" \
			</dev/null >>"$logdir/svscan.log" 2>&1 7>&- 8>&- 9>&-) &
		local i
		for ((i = 0; i < 50; i++)); do
			! svscan_alive || return 0
			sleep 0.1
		done
		die "s6-svscan did not start; see $logdir/svscan.log"
	}
}

# Starts a service, or restarts it when what it runs has changed since it was started by us.
service_up() {
	local s=$1 digest stamp=$run/running-$1
	digest=$(service_digest "$s")
	if have_systemd; then
		if [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then systemctl start "paddock-$s$sfx.service"; else systemctl restart "paddock-$s$sfx.service"; fi
	else
		local i
		for ((i = 0; i < 100; i++)); do
			! s6-svok "$run/service/$s" || break
			sleep 0.1
		done
		if [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ] || [ ! -f "$stamp" ]; then s6-svc -u "$run/service/$s"; else s6-svc -ru "$run/service/$s"; fi
	fi
	printf '%s\n' "$digest" >"$stamp"
}

# Stops everything in an order in which nobody misses anybody. Sandboxes that run go on: stopping never deletes one.
service_stop_all() {
	local s i
	if have_systemd; then
		for s in nginx api executor engine db prepare; do
			systemctl -q stop "paddock-$s$sfx.service" 2>/dev/null || true
		done
		return
	fi
	svscan_alive || return 0
	for s in nginx api executor engine db; do
		[ ! -d "$run/service/$s" ] || s6-svc -wD -T 30000 -d "$run/service/$s" || warn "$s did not stop in time"
	done
	s6-svscanctl -t "$run/service"
	for ((i = 0; i < 100; i++)); do
		svscan_alive || break
		sleep 0.1
	done
	rm -f "$run"/running-*
}
