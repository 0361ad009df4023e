# shellcheck shell=bash
# first.sh - waits until everything is ready, makes the first admin once, and runs a first command the way a user would.

base=https://localhost:$port

ctl() { PADDOCK_CONFIG=$etc/paddock.ini "$prefix/bin/paddockctl" "$@"; }

first_ready() {
	local deadline=$((SECONDS + 60)) answer
	step "waiting for $base/readyz"
	while [ "$SECONDS" -lt "$deadline" ]; do
		! curl -fsSk --max-time 5 -o /dev/null "$base/readyz" 2>/dev/null || return 0
		sleep 0.3
	done
	answer=$(curl -sk --max-time 5 "$base/readyz" 2>&1 || true)
	die "not ready after 60 s: ${answer:-no answer}
Look at: $ctl doctor, and $logdir/*/current"
}

first_admin() {
	[ ! -f "$lib/admin-made" ] || return 0
	ctl users create admin --admin >/dev/null || true
	first_token=$(ctl tokens create --user admin --kind admin)
	touch "$lib/admin-made"
}

# Another program's server on the port would be taken for ours further down. Ours may hold it already.
first_port() {
	local pid
	pid=$(cat "$run/nginx/nginx.pid" 2>/dev/null || true)
	[ -z "$pid" ] || ! kill -0 "$pid" 2>/dev/null || ! grep -Eq "listen .*\b$port\b" "$etc/nginx.conf" || return 0
	! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || die "port $port is taken by another program; choose a free one: PADDOCK_HTTPS_PORT=NUMBER $0"
}

# A later run has no token to show: it makes one for its own command and takes it back.
first_command() {
	local token=${first_token:-} id='' out
	[ -n "$token" ] || token=$(ctl tokens create --user admin --kind user)
	id=${token#pdk_}
	id=${id%%_*}
	step "a first command, through HTTPS, in a sandbox of its own"
	out=$(curl -sSkN --max-time 60 "$base/api/execute" -H @- -d '{"command":"echo hello from $(id -un) in a sandbox; python3 -c \"print(6*7)\""}' \
		<<<"Authorization: Bearer $token" -H 'Content-Type: application/json' -H 'Accept: text/event-stream') || die "the first command failed"
	say "$out"
	[[ $out == *'"exit_code":0'* ]] || die "the first command did not end well; see $logdir/*/current"
	if [ -n "${first_token:-}" ]; then
		first_words "$token"
	else
		ctl tokens revoke "$id" >/dev/null || warn "the token of this check could not be revoked: $ctl tokens revoke $id"
		say ""
		say "Paddock runs at $base. Another token: $ctl tokens create --user admin --kind user"
	fi
}

first_words() {
	cat <<-END

		Paddock runs at $base

		The first admin is "admin"; this token is shown once:

		    export TOKEN=$1

		Try it:

		    curl -k -N $base/api/execute -H "Authorization: Bearer \$TOKEN" \\
		         -H 'Accept: text/event-stream' -d '{"command":"python3 -c \\"print(6*7)\\"; ls -la"}'

		Next: $ctl status, $ctl doctor, docs/examples.md
	END
}
