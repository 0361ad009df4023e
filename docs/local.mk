# docs
EXTRA_DIST += CONTRIBUTING.md NEWS SECURITY.md \
	docs/ARCHITECTURE.md \
	docs/agent-protocol.md \
	docs/container.md docs/host.md \
	docs/examples.md \
	docs/executor-api.md \
	docs/journal.md \
	docs/operations.md \
	docs/performance.md \
	docs/providers.md
dist_man_MANS += docs/man/paddock.ini.5 docs/man/paddock-executor.8 docs/man/paddockctl.8
