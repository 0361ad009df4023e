# shellcheck shell=bash
# config.sh - configuration files, keys, certificate. Files that a person may have edited (paddock.ini) are made once and then left alone.

# What paddock.ini gets when it is made; a present one is its owner's.
provider_check() {
	case ${PADDOCK_PROVIDER:-container} in
	container) ;;
	host)
		[ "${PADDOCK_HOST_I_UNDERSTAND:-}" = yes ] || die "provider host runs every user's commands as processes of this machine: they share its kernel. It is for
development and for machines with a single tenant. If that is what you want: PADDOCK_PROVIDER=host PADDOCK_HOST_I_UNDERSTAND=yes $0"
		;;
	*) die "PADDOCK_PROVIDER: \"$PADDOCK_PROVIDER\" is neither container nor host" ;;
	esac
	[ ! -f "$etc/paddock.ini" ] || [ "${PADDOCK_PROVIDER:-}" != host ] || is_host ||
		die "$etc/paddock.ini is there and has another provider: set [service] provider = host and [host] i_understand = yes in it"
}

config_keys() {
	if [ ! -f "$etc/keys/pepper" ]; then
		(umask 077 && head -c 32 /dev/urandom >"$etc/keys/pepper.new")
		chown "root:$acct_api" "$etc/keys/pepper.new"
		chmod 440 "$etc/keys/pepper.new"
		mv "$etc/keys/pepper.new" "$etc/keys/pepper"
	fi
}

config_tls() {
	[ ! -f "$etc/tls/cert.pem" ] || return 0
	local host names
	host=$(uname -n)
	names=DNS:localhost,IP:127.0.0.1,IP:::1
	! [[ $host =~ ^[A-Za-z0-9][A-Za-z0-9.-]*$ ]] || [ "$host" = localhost ] || names=$names,DNS:$host
	(umask 077 && quietly "$etc/tls/openssl.log" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
		-subj "/CN=Paddock on $host" -addext "subjectAltName=$names" -addext basicConstraints=critical,CA:FALSE \
		-addext extendedKeyUsage=serverAuth -keyout "$etc/tls/key.pem" -out "$etc/tls/cert.new")
	rm -f "$etc/tls/openssl.log"
	chown root:www-data "$etc/tls/key.pem"
	chmod 640 "$etc/tls/key.pem"
	chmod 644 "$etc/tls/cert.new"
	mv "$etc/tls/cert.new" "$etc/tls/cert.pem"
}

config_files() {
	local t=$here/templates f
	[ -f "$etc/paddock.ini" ] || render "$t/paddock.ini.in" | put "$etc/paddock.ini" 644 root:root || true
	sed -i "s/^https_port *=.*/https_port = $port/" "$etc/paddock.ini"
	for f in containers.conf storage.conf; do
		render "$t/$f.in" | put "$etc/$f" 644 root:root || true
	done
	put "$etc/seccomp.json" 644 root:root <"$here/image/seccomp.json" || true
	render "$src/nginx/nginx.conf.in" | put "$etc/nginx.conf" 644 root:root || true
	dir_as "$acct" "$lib/engine/home/.config" 700
	dir_as "$acct" "$lib/engine/home/.config/containers" 700
	put_as "$acct" "$lib/engine/home/.config/containers/policy.json" 644 <"$t/policy.json"
	mkdir -p "$prefix/libexec/paddock"
	render "$t/paddock-prepare.in" | put "$prefix/libexec/paddock/paddock-prepare" 755 root:root || true
	put "$prefix/libexec/paddock/paddock-engine-leaf" 755 root:root <"$t/paddock-engine-leaf" || true
	config_ctl
}

# The normal instance has a link; another one a wrapper that names its configuration.
config_ctl() {
	if [ -z "$instance" ]; then
		ln -sfn "$prefix/bin/paddockctl" "$ctl"
		man_link
	else
		printf '#!/bin/sh\nPADDOCK_CONFIG=%s/paddock.ini exec %s/bin/paddockctl "$@"\n' "$etc" "$prefix" | put "$ctl" 755 root:root || true
	fi
}
