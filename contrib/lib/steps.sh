# shellcheck shell=bash
# steps.sh - the steps of contrib/check. A step is a function step_NAME that writes to its log and returns 0, 1, or 77 (skipped, the last
# line says why). Counts come from what the test programs print: TAP totals of automake and pg_prove, pytest's last line; else a step is one.

passed=0 failed=0 skipped=0 bad_steps=()

# Adds up what a log says: "P F S", or nothing when there are no counts in it.
counts_of() {
	awk '
		/^# PASS:/ { p += $3; any = 1 }
		/^# XFAIL:/ { p += $3 }
		/^# SKIP:/ { s += $3; any = 1 }
		/^# (FAIL|XPASS|ERROR):/ { f += $3; any = 1 }
		/^=+ .*(passed|failed|skipped|error).* in [0-9.]+s/ || /^[0-9]+ (passed|failed|skipped).* in [0-9.]+s/ {
			any = 1
			for (i = 2; i <= NF; i++) {
				if ($i ~ /^passed/) p += $(i - 1)
				if ($i ~ /^failed/ || $i ~ /^errors?/) f += $(i - 1)
				if ($i ~ /^skipped/) s += $(i - 1)
			}
		}
		/^## counts: / { any = 1; p += $3; f += $4; s += $5 }
		END { if (any) print p + 0, f + 0, s + 0 }
	' "$1"
}

check_step() {
	local name=$1 log=$logs/$1.log start=$SECONDS rc p f s
	printf '%-8s ' "$name"
	("step_$name") >"$log" 2>&1 </dev/null 7>&-
	rc=$?
	read -r p f s < <(counts_of "$log")
	if [ "${p:-0}${f:-0}${s:-0}" = 000 ]; then   # nothing was counted: the step itself is what passed
		p=0 f=0 s=0
		case $rc in 0) p=1 ;; 77) s=1 ;; *) f=1 ;; esac
	fi
	[ $rc -eq 0 ] || [ $rc -eq 77 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [ "$f" -gt 0 ]; then
		bad_steps+=("$name")
		printf 'FAILED  %4d s  %d passed, %d failed, %d skipped\n' $((SECONDS - start)) "$p" "$f" "$s"
		sed 's/^/    /' <(tail -n 80 "$log")
	else
		printf 'ok      %4d s  %d passed, %d skipped%s\n' $((SECONDS - start)) "$p" "$s" "$([ $rc -ne 77 ] || printf ' (%s)' "$(tail -n 1 "$log")")"
		grep -h '^figure: ' "$log" | sed 's/^figure: /    /'
		[ "$s" -eq 0 ] || grep -hE '^(SKIPPED|SKIP:|.* # SKIP)' "$log" | sed 's/^/    /' | head -n 20
	fi
}

check_summary() {
	[ ${#bad_steps[@]} -eq 0 ] || say "failed steps: ${bad_steps[*]}"
	say "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}

check_cleanup() {
	if [ -n "${PADDOCK_CHECK_KEEP:-}" ]; then
		say "kept: $work"
		return
	fi
	local i
	for i in check host san; do
		[ ! -e "/opt/paddock-$i" ] || PADDOCK_INSTANCE=$i "$here/down" --purge >/dev/null 2>&1
	done
	[ ! -d "$work/pg" ] || sh "$src/tests/lib/pg.sh" stop "$work/pg" >/dev/null 2>&1
	chmod -R u+w "$work" 2>/dev/null
	rm -rf "$work"
}

step_tools() { packages_install run build test; }

step_lint() {
	local l rc=0 p=0 f=0 s=0
	for l in "$here"/lint/*; do
		[ -x "$l" ] || continue
		echo "--- ${l##*/}"
		"$l"
		case $? in 0) p=$((p + 1)) ;; 77) s=$((s + 1)) ;; *) f=$((f + 1)) rc=1; echo "^^^ ${l##*/} failed" ;; esac
	done
	echo "## counts: $p $f $s"
	return $rc
}

# A private copy of the source, made once.
source_copy() {
	[ -x "$work/src/configure" ] && return
	build_sync "$work/src" && "$work/src/bootstrap"
}

# build_tree NAME FLAGS...: configures and builds in $work/NAME
build_tree() {
	local name=$1
	shift
	source_copy || return 1
	mkdir -p "$work/$name"
	(cd "$work/$name" && "$work/src/configure" --prefix="$work/root" "$@" && make -j"$jobs" all && make -j"$jobs" check TESTS=)
}

step_gcc() { build_tree gcc --enable-werror --enable-fault CC=gcc; }

step_unit() {
	[ -f "$work/gcc/Makefile" ] || step_gcc || return 1
	make -C "$work/gcc" -j"$jobs" check || { tail_failures "$work/gcc"; return 1; }
}

step_clang() { build_tree clang --enable-werror CC=clang; }

step_asan() {
	build_tree asan --enable-werror --enable-fault --enable-asan --enable-ubsan CC=gcc || return 1
	make -C "$work/asan" -j"$jobs" check || { tail_failures "$work/asan"; return 1; }
}

tail_failures() { tail -n 200 "$1/test-suite.log"; }

# Every fuzz target for a few seconds, from its seeds.
step_fuzz() {
	build_tree fuzz --enable-fuzz --enable-asan --enable-ubsan CC=clang || return 1
	local t n rc=0 p=0 f=0
	for t in "$work"/fuzz/tests/fuzz/fuzz_*; do
		[ -x "$t" ] && [ -f "$t" ] || continue
		n=${t##*/}
		echo "--- $n"
		mkdir -p "$work/corpus/$n"
		local seeds=()
		[ ! -d "$src/tests/fuzz/seeds/${n#fuzz_}" ] || seeds+=("$src/tests/fuzz/seeds/${n#fuzz_}")
		if (cd "$work" && "$t" -max_total_time=8 -rss_limit_mb=1024 -timeout=10 -print_final_stats=1 "$work/corpus/$n" "${seeds[@]}" 2>&1 | tail -n 12); then
			p=$((p + 1))
		else
			f=$((f + 1)) rc=1
		fi
	done
	[ $((p + f)) -gt 0 ] || { echo "no fuzz target was built"; return 1; }
	echo "## counts: $p $f 0"
	return $rc
}

step_dist() {
	[ -f "$work/gcc/Makefile" ] || step_gcc || return 1
	# The unit tests of the unpacked tree run inside; they are counted once, above.
	make -C "$work/gcc" -j"$jobs" distcheck DISTCHECK_CONFIGURE_FLAGS=--enable-werror >"$logs/distcheck.log" 2>&1 || { tail -n 60 "$logs/distcheck.log"; return 1; }
}

# The schema against a scratch cluster: migrations as their owner, then pgTAP.
step_sql() {
	local files=("$src"/sql/test/*.sql) f
	[ -f "${files[0]}" ] || { echo "there are no tests in sql/test"; return 1; }
	sh "$src/tests/lib/pg.sh" start "$work/pg" || return $?
	local as_owner="host=$work/pg dbname=paddock user=paddock_owner"
	for f in "$src"/sql/[0-9]*.sql; do
		psql -X -q -v ON_ERROR_STOP=1 -1 -d "$as_owner" -f "$f" || return 1
	done
	psql -X -q -h "$work/pg" -U postgres -d paddock -c 'CREATE EXTENSION IF NOT EXISTS pgtap' || return 1
	pg_prove -h "$work/pg" -U postgres -d paddock "${files[@]}" | tee "$logs/pg_prove.log"
	local rc=${PIPESTATUS[0]} n
	n=$(sed -n 's/^Files=.*Tests=\([0-9]*\).*/\1/p' "$logs/pg_prove.log")
	if [ "$rc" -eq 0 ]; then echo "## counts: ${n:-1} 0 0"; else echo "## counts: 0 1 0"; fi
	sh "$src/tests/lib/pg.sh" stop "$work/pg"
	return "$rc"
}

# The daemons as they were built, each beside stand-ins for the others: what the whole service cannot be made to do at will.
step_parts() {
	local rc=0 walk
	[ -x "$work/gcc/paddock-api" ] || step_gcc || return 1
	model_walk >"$logs/walk.log" 2>&1 &   # it waits for its parts more than it computes
	walk=$!
	(cd "$src" && PADDOCK_BUILD=$work/gcc PADDOCK_AGENT=$work/gcc/paddock-agent PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -p no:cacheprovider -q -rs tests/integration --ignore=tests/integration/test_container.py \
		--deselect tests/integration/test_provider_conformance.py::test_container) || rc=1
	wait "$walk" || rc=1
	cat "$logs/walk.log"
	return $rc
}

# The long walk over users' sandboxes. PADDOCK_MODEL_SEED takes another way; what fails is replayed by its seed.
model_walk() {
	make -C "$work/gcc" -j"$jobs" tests/unit/test_sandbox_model || return 1
	PADDOCK_BUILD=$work/gcc PADDOCK_MODEL_SEED=${PADDOCK_MODEL_SEED:-20261201} PADDOCK_MODEL_STEPS=${PADDOCK_MODEL_STEPS:-100000} \
		"$work/gcc/tests/unit/test_sandbox_model"
	case $? in
	0) echo "## counts: 1 0 0" ;;
	77) echo "## counts: 0 0 1" ;;
	*)
		echo "## counts: 0 1 0"
		return 1
		;;
	esac
}

# instance_up NAME PORT FLAGS: a fresh installation for tests
instance_up() {
	PADDOCK_INSTANCE=$1 "$here/down" --purge || return 1
	PADDOCK_INSTANCE=$1 PADDOCK_HTTPS_PORT=$2 PADDOCK_CONFIGURE_FLAGS=$3 "$here/up" || return 1
}

instance_logs() { # what the services of an instance said last, for a failure's log
	local f
	for f in /var/log/paddock-"$1"/*/current; do
		echo "--- $f"
		tail -n 15 "$f"
	done
}

pytest_on() { # pytest_on NAME PORT ARGUMENTS...
	local name=$1 port=$2
	shift 2
	(cd "$src" && PADDOCK_INSTANCE=$name PADDOCK_HTTPS_PORT=$port PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -p no:cacheprovider -q -rs "$@")
}

instance_pids() { # NAME PID of each service
	/usr/local/bin/paddockctl-"$1" status | awk '$2 == "up" && $3 == "pid" { print $1, $4 }'
}

# instance_again NAME PORT FLAGS: set-up run once more finds everything in order: it restarts nothing and shows no token.
instance_again() {
	local before after out=$logs/again.log rc=0
	before=$(instance_pids "$1")
	PADDOCK_INSTANCE=$1 PADDOCK_HTTPS_PORT=$2 PADDOCK_CONFIGURE_FLAGS=$3 "$here/up" >"$out" 2>&1 || { cat "$out"; return 1; }
	after=$(instance_pids "$1")
	[ "$(wc -l <<<"$before")" -eq 5 ] && [ "$before" = "$after" ] || { printf 'a second up restarted services\nbefore:\n%s\nafter:\n%s\n' "$before" "$after"; rc=1; }
	! grep -q 'pdk_' "$out" || { echo "a second up shows a token"; rc=1; }
	return $rc
}

step_e2e() {
	[ -x "$work/gcc/paddock-executor" ] || step_gcc || return 1
	instance_up check 8543 "--enable-fault --enable-werror" || return 1
	local rc=0
	instance_again check 8543 "--enable-fault --enable-werror" || rc=1
	# The container provider alone, as a node of its own at the engine of that instance.
	PADDOCK_BUILD=$work/gcc pytest_on check 8543 tests/integration/test_container.py tests/integration/test_provider_conformance.py::test_container || rc=1
	pytest_on check 8543 tests/e2e -m "not persistent" || rc=1
	[ $rc -eq 0 ] || instance_logs check
	return $rc
}

# The same service with sandboxes that outlive Runs: theirs, and what must hold in either kind.
step_host() {
	PADDOCK_PROVIDER=host PADDOCK_HOST_I_UNDERSTAND=yes instance_up host 8743 "--enable-fault --enable-werror" || return 1
	local t=tests/e2e/test_ rc=0
	pytest_on host 8743 -m "not container" ${t}sandbox.py ${t}first_command.py ${t}runs.py ${t}steer.py ${t}exports.py ${t}background.py ${t}timeout_kill.py \
		${t}idempotency.py ${t}cursor.py ${t}output.py ${t}bad_input.py ${t}executor_away.py ${t}database_away.py || rc=1
	[ $rc -eq 0 ] || instance_logs host
	return $rc
}

# The same service under the sanitizers: a shorter run, then no report may be in any log.
step_san() {
	instance_up san 8643 "--enable-asan --enable-ubsan --enable-fault" || return 1
	local t=tests/e2e/test_
	pytest_on san 8643 ${t}first_command.py ${t}output.py ${t}cursor.py ${t}bad_input.py ${t}runs.py ${t}timeout_kill.py ${t}background.py
	local rc=$? found
	PADDOCK_INSTANCE=san "$here/down"
	found=$(grep -lE 'ERROR: (Address|Leak)Sanitizer|runtime error:' /var/log/paddock-san/*/* 2>/dev/null)
	[ -z "$found" ] || {
		# shellcheck disable=SC2086 # file names without blanks
		grep -hE -A 12 'ERROR: (Address|Leak)Sanitizer|runtime error:' $found | head -n 100
		rc=1
	}
	[ $rc -eq 0 ] || instance_logs san
	return $rc
}
