#!/bin/sh
# A private PostgreSQL cluster on a Unix socket, for tests. No TCP, trust among those who reach the directory.
#   pg.sh start DIR     makes DIR (which must not exist), the roles and the empty database `paddock`; the socket is in DIR
#   pg.sh stop DIR      stops it and removes DIR
#   pg.sh restart DIR   immediate stop, then start: a crash
#   pg.sh halt DIR / pg.sh resume DIR   the two halves of it
# Connect with "host=DIR dbname=paddock user=paddock_owner|paddock_api|paddock_read|postgres". Exit 77: no PostgreSQL here.
set -eu
cmd=$1 dir=$2
here=$(cd "$(dirname "$0")" && pwd)
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { echo "no PostgreSQL server binaries" >&2; exit 77; }

# The server refuses to run as root.
as_postgres() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=postgres --regid=postgres --clear-groups env -i PATH="$bin:/usr/bin:/bin" LANG=C.UTF-8 "$@"
	else
		env -i PATH="$bin:/usr/bin:/bin" LANG=C.UTF-8 "$@"
	fi
}
server() {
	cd /
	as_postgres pg_ctl -D "$dir/data" -w -t 30 "$@" >"$dir/ctl.log" 2>&1 </dev/null || { cat "$dir/ctl.log" "$dir/server.log" >&2; return 1; }
}
start_server() {
	server -l "$dir/server.log" -o "-c listen_addresses= -c unix_socket_directories=$dir -c fsync=off -c max_connections=60 -c shared_buffers=32MB" start
}

case $cmd in
start)
	mkdir "$dir"
	chmod 0711 "$dir"
	[ "$(id -u)" = 0 ] && chown postgres "$dir"
	(cd / && as_postgres initdb -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync) >/dev/null
	start_server
	psql -q -X -h "$dir" -U postgres -d postgres -v ON_ERROR_STOP=1 -f "$here/../../sql/roles.sql" -c 'CREATE DATABASE paddock OWNER paddock_owner'
	;;
stop)
	server -m immediate stop || true
	rm -rf -- "$dir"
	;;
halt) server -m immediate stop ;;
resume) start_server ;;
restart) server -m immediate stop; start_server ;;
*) echo "usage: pg.sh start|stop|restart|halt|resume DIR" >&2; exit 2 ;;
esac
