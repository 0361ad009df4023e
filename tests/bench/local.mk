# tests/bench, tests/e2e, tests/lib: run against an installed instance; see docs/performance.md and CONTRIBUTING.md
EXTRA_DIST += tests/bench/run tests/bench/bench.py tests/bench/floor.c tests/bench/miniagent.c tests/bench/wrk.lua tests/bench/schema.sql \
	tests/bench/peer_fastapi.py tests/bench/peer_docker.py tests/bench/peer_node.js \
	tests/lib/paddock.py tests/e2e/pytest.ini tests/e2e/conftest.py \
	tests/e2e/test_background.py tests/e2e/test_bad_input.py tests/e2e/test_chaos.py tests/e2e/test_cursor.py tests/e2e/test_database_away.py tests/e2e/test_engine_keeper.py \
	tests/e2e/test_examples.py tests/e2e/test_executor_away.py tests/e2e/test_first_command.py tests/e2e/test_health.py \
	tests/e2e/test_idempotency.py tests/e2e/test_inside.py tests/e2e/test_leaks.py tests/e2e/test_limits_sizes.py tests/e2e/test_many.py \
	tests/e2e/test_memory_limit.py tests/e2e/test_output.py tests/e2e/test_reload.py tests/e2e/test_runs.py tests/e2e/test_slow_reader.py \
	tests/e2e/test_timeout_kill.py
