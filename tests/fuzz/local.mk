# Fuzz targets (configure CC=clang --enable-fuzz --enable-asan). Each is tests/fuzz/fuzz_<name>.c with seeds in tests/fuzz/seeds/<name>/,
# declared by the fragment of what it tests: noinst_PROGRAMS, _LDADD, _LDFLAGS, seeds in EXTRA_DIST. fuzz-smoke finds them all.
FUZZ_RUNS = 20000
EXTRA_DIST += tests/fuzz/seeds/json tests/fuzz/seeds/text tests/fuzz/seeds/frame tests/fuzz/seeds/config

if FUZZ
noinst_PROGRAMS += tests/fuzz/fuzz_json tests/fuzz/fuzz_text tests/fuzz/fuzz_frame tests/fuzz/fuzz_config
tests_fuzz_fuzz_json_LDADD = $(CORE_LDADD)
tests_fuzz_fuzz_json_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_text_LDADD = libbase.a
tests_fuzz_fuzz_text_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_frame_LDADD = libframe.a libbase.a
tests_fuzz_fuzz_frame_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_config_LDADD = $(CORE_LDADD)
tests_fuzz_fuzz_config_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif

# Runs every target from its seeds, FUZZ_RUNS inputs each; new inputs go to fuzz-out/<name>/, what breaks to fuzz-out/<name>-*.
FUZZ_BUILT = $(filter tests/fuzz/fuzz_%,$(noinst_PROGRAMS))
fuzz-smoke: $(FUZZ_BUILT)
	@test -n "$(FUZZ_BUILT)" || { echo "fuzz-smoke: configure with CC=clang --enable-fuzz first" >&2; exit 1; }
	@mkdir -p fuzz-out; for p in $(FUZZ_BUILT); do \
		n=$${p#tests/fuzz/fuzz_}; mkdir -p fuzz-out/$$n; \
		$$p -runs=$(FUZZ_RUNS) -max_len=4096 -timeout=10 -rss_limit_mb=1024 -verbosity=0 \
			-artifact_prefix=fuzz-out/$$n- fuzz-out/$$n $(srcdir)/tests/fuzz/seeds/$$n 2>fuzz-out/$$n.log || \
			{ tail -n 60 fuzz-out/$$n.log >&2; exit 1; }; \
		echo "fuzz-smoke: $$n: $(FUZZ_RUNS) runs"; done
.PHONY: fuzz-smoke
