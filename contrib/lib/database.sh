# shellcheck shell=bash
# database.sh - the installation's own PostgreSQL cluster: Unix socket only, peer authentication, roles by a map of accounts.
# Roles: paddock_owner owns the database and its schema, paddock_api is the application, paddock_read reads (paddockctl sql).

database_find() {
	local d
	for d in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t/ -k5 -n -r); do
		[ ! -x "$d/initdb" ] || { pgbin=$d; break; }
	done
	[ -n "${pgbin:-}" ] || die "no PostgreSQL server below /usr/lib/postgresql"
	# A cluster stays with the major version that made it.
	if [ -f "$lib/pg/PG_VERSION" ]; then
		local version
		version=$(head -c 16 "$lib/pg/PG_VERSION")
		[[ $version =~ ^[1-9][0-9]*$ ]] || die "$lib/pg/PG_VERSION does not name a version of PostgreSQL"
		pgbin=/usr/lib/postgresql/$version/bin
		[ -x "$pgbin/postgres" ] || die "the cluster in $lib/pg needs PostgreSQL $version (package postgresql-$version)"
	fi
}

database_files() {
	put_as postgres "$lib/pg/pg_hba.conf" 600 <<-END
		# Unix socket only; the operating system says who is calling (pg_ident.conf)
		local all all peer map=paddock
	END
	put_as postgres "$lib/pg/pg_ident.conf" 600 <<-END
		paddock postgres   postgres
		paddock postgres   paddock_owner
		paddock $acct_api  paddock_api
		paddock root       paddock_owner
		paddock root       paddock_api
		paddock root       paddock_read
	END
	put_as postgres "$lib/pg/paddock.conf" 600 <<-END
		listen_addresses = ''
		unix_socket_directories = '$run/pg'
		unix_socket_permissions = 0770
		max_connections = 60
		shared_buffers = 64MB
		jit = off
		log_destination = stderr
		logging_collector = off
		log_line_prefix = 'ts=%t pid=%p user=%u '
		log_min_duration_statement = 1000
		log_checkpoints = off
		timezone = UTC
		log_timezone = UTC
	END
	# shellcheck disable=SC2016 # expanded by that shell
	as postgres sh -c 'grep -q "^include '"'paddock.conf'"'" "$1" || echo "include '"'paddock.conf'"'" >>"$1"' sh "$lib/pg/postgresql.conf"
}

database_cluster() {
	if [ ! -f "$lib/pg/PG_VERSION" ]; then
		step "PostgreSQL cluster in $lib/pg"
		quietly "$lib/build/initdb.log" as postgres "$pgbin/initdb" -D "$lib/pg" -U postgres --encoding=UTF8 --locale=C.UTF-8 \
			--data-checksums --auth-local=peer --auth-host=reject
	fi
	database_files
}

sql_admin() { # one statement or more on standard input, as the superuser
	as postgres psql -X -q -v ON_ERROR_STOP=1 -h "$run/pg" -U postgres "$@"
}

database_wait() {
	local i
	for ((i = 0; i < 150; i++)); do
		! as postgres "$pgbin/pg_isready" -q -h "$run/pg" -U postgres || return 0
		sleep 0.2
	done
	die "PostgreSQL does not answer on $run/pg; its log is $logdir/db/current"
}

database_roles() {
	database_wait
	sql_admin -d postgres <"$src/sql/roles.sql"
	[ -n "$(sql_admin -d postgres -At -c "SELECT 1 FROM pg_database WHERE datname = 'paddock'")" ] ||
		sql_admin -d postgres -c "CREATE DATABASE paddock OWNER paddock_owner"
	sql_admin -d paddock <<-'END'
		REVOKE ALL ON DATABASE paddock FROM PUBLIC;
		GRANT CONNECT ON DATABASE paddock TO paddock_api, paddock_read;
		ALTER SCHEMA public OWNER TO paddock_owner;
	END
}

database_migrate() {
	step "database schema"
	PADDOCK_CONFIG=$etc/paddock.ini "$prefix/bin/paddockctl" migrate
}
