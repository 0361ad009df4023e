# libframe.a: the agent protocol's codec, libc only, linked into the agent too. libcore.a: what services share.
noinst_LIBRARIES += libframe.a libcore.a
libframe_a_SOURCES = \
	src/core/frame.c src/core/frame.h \
	src/core/frame_msg.c src/core/frame_msg.h
libcore_a_SOURCES = \
	src/core/config.c src/core/config.h \
	src/core/config_env.c src/core/config_env.h \
	src/core/config_ini.c src/core/config_ini.h \
	src/core/config_main.c \
	src/core/config_rules.c src/core/config_rules.h \
	src/core/config_table.c src/core/config_table.h \
	src/core/config_value.c src/core/config_value.h \
	src/core/crypto.c src/core/crypto.h \
	src/core/http_async.c src/core/http_client.c src/core/http_client.h \
	src/core/http_easy.c src/core/http_easy.h \
	src/core/id.c src/core/id.h \
	src/core/json.c src/core/json_field.c src/core/json.h \
	src/core/json_scan.c src/core/json_scan.h \
	src/core/loop.c src/core/loop.h \
	src/core/unixsock.c src/core/unixsock.h

# What a program on libcore links, after the libraries of its own layers.
CORE_LDADD = libcore.a libframe.a libbase.a $(JSONC_LIBS) $(CURL_LIBS) $(EVENT_LIBS) $(SODIUM_LIBS) $(INIPARSER_LIBS)
