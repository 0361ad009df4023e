noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	src/base/err.c src/base/err.h \
	src/base/cleanup.h
