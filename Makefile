# workspaced: `make help` lists the targets.
#
# One archive holds everything but main(), so that the daemon, the unit tests and the fuzzers link
# the same objects.  Sources are found by folder: a new file needs no line here.

SAN      ?=
CC       := gcc
CLANG    ?= clang
PYTHON   ?= /usr/bin/python3
PREFIX   ?= /usr/local
DESTDIR  ?=
VERSION  := 0.1.0

comma    := ,
BUILD    := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))

PKGS     := libtirpc libuv jansson sqlite3 libseccomp libcap-ng libsodium libpcre2-8 libarchive
LLHTTP_DIR ?= /usr/share/llhttp
LLHTTP_INC ?= /usr/share/include/llhttp
# The FUSE client's own; the daemon is not linked with them.
FUSE_PKGS := fuse3 libcurl
# libllhttp by pkg-config where a distribution has it, else Debian's node-llhttp sources
LLHTTP_PC := $(shell pkg-config --exists libllhttp 2>/dev/null && echo yes)

WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
            -Wpointer-arith -Wundef -Wwrite-strings -Wno-unused-parameter -Wno-missing-field-initializers
CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE -DWORKSPACED_VERSION='"$(VERSION)"' \
            $(shell pkg-config --cflags $(PKGS)) $(if $(LLHTTP_PC),,-I$(LLHTTP_INC))
OPT      ?= -O2
HARDEN   := -fstack-protector-strong -fPIE -D_FORTIFY_SOURCE=2
ifneq ($(SAN),)
OPT      := -O1
HARDEN   := -fPIE
SANFLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer
endif
CFLAGS   += -std=gnu17 $(OPT) -g -fno-omit-frame-pointer $(WARN) $(HARDEN) $(SANFLAGS) $(EXTRA_CFLAGS)
LDFLAGS  += -pie -Wl,-z,relro,-z,now $(SANFLAGS)
LDLIBS   += $(shell pkg-config --libs $(PKGS)) $(if $(LLHTTP_PC),-lllhttp) -lpthread

LIB_DIRS := base proto workspace nfsd broker http
LIB_SRCS := $(filter-out workspaced.c,$(wildcard *.c)) $(wildcard $(addsuffix /*.c,$(LIB_DIRS)))
LIB_OBJS := $(LIB_SRCS:%.c=$(BUILD)/%.o)
XDR      := $(patsubst proto/%.x,%,$(wildcard proto/*.x))
XDR_HDRS := $(XDR:%=$(BUILD)/proto/%.h)
XDR_OBJS := $(XDR:%=$(BUILD)/proto/%_xdr.o)
ifeq ($(LLHTTP_PC),)
LLHTTP_OBJS := $(patsubst $(LLHTTP_DIR)/%.c,$(BUILD)/llhttp/%.o,$(wildcard $(LLHTTP_DIR)/*.c))
endif
LIB      := $(BUILD)/libworkspaced.a
FUSE_SRCS := $(wildcard fuse-client/*.c)
FUSE_OBJS := $(FUSE_SRCS:%.c=$(BUILD)/obj/%.o)
FUSE_LIB := $(BUILD)/libfuseclient.a
FUSE_CPPFLAGS = -DFUSE_USE_VERSION=314 $(shell pkg-config --cflags $(FUSE_PKGS))
FUSE_LDLIBS = $(shell pkg-config --libs $(FUSE_PKGS))
UNIT_SRCS := $(wildcard tests/unit/test_*.c)
UNITS    := $(UNIT_SRCS:tests/unit/%.c=$(BUILD)/tests/%)
FUZZ_SRCS := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_REPLAY := $(FUZZ_SRCS:tests/fuzz/%.c=$(BUILD)/fuzz/%)

all: $(BUILD)/workspaced $(BUILD)/fuse-client ## build the daemon and the FUSE client

$(BUILD)/workspaced: $(BUILD)/workspaced.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

# Its objects lie in a folder of their own, since build/fuse-client is the program.  base/ and proto/
# come out of the daemon's archive; of the libraries only those that it uses are linked.
$(BUILD)/fuse-client: $(BUILD)/obj/fuse-client/fuse_main.o $(FUSE_LIB) $(LIB)
	$(CC) $(LDFLAGS) -Wl,--as-needed -o $@ $< $(FUSE_LIB) $(LIB) $(FUSE_LDLIBS) $(LDLIBS)

$(FUSE_LIB): $(filter-out %/fuse_main.o,$(FUSE_OBJS))
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/obj/fuse-client/%.o: fuse-client/%.c | $(XDR_HDRS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(FUSE_CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJS) $(XDR_OBJS) $(LLHTTP_OBJS)
	@rm -f $@
	ar rcs $@ $^

# rpcgen: one header and one file of XDR routines for each .x
$(BUILD)/proto/%.h: proto/%.x
	@mkdir -p $(@D)
	@rm -f $@
	cd proto && rpcgen -C -h -o $(abspath $@) $*.x
$(BUILD)/proto/%_xdr.c: proto/%.x $(BUILD)/proto/%.h
	@rm -f $@
	cd proto && rpcgen -C -c -o $(abspath $@) $*.x
	@sed -i 's|#include "$*.h"|#include "proto/$*.h"|' $@
$(BUILD)/proto/%_xdr.o: $(BUILD)/proto/%_xdr.c
	$(CC) $(CPPFLAGS) $(CFLAGS) -w -MMD -c -o $@ $<

# The page at /docs, made of the description; the object that holds both does not know of them by -MMD.
$(BUILD)/http/docs.html $(BUILD)/http/docs_style.h &: proto/openapi.yaml scripts/make-docs-page.py
	@mkdir -p $(@D)
	$(PYTHON) scripts/make-docs-page.py proto/openapi.yaml $(BUILD)/http/docs.html $(BUILD)/http/docs_style.h
$(BUILD)/http/api_docs.o: proto/openapi.yaml $(BUILD)/http/docs.html $(BUILD)/http/docs_style.h

$(BUILD)/llhttp/%.o: $(LLHTTP_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -w -c -o $@ $<

$(BUILD)/%.o: %.c | $(XDR_HDRS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/test_fuse_%: tests/unit/test_fuse_%.c $(FUSE_LIB) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(FUSE_CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes -MMD -MP -MF $@.d $(LDFLAGS) -o $@ $< $(FUSE_LIB) $(LIB) $(FUSE_LDLIBS) $(LDLIBS) -lcmocka

$(BUILD)/tests/%: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes -MMD -MP -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS) -lcmocka

# One call through the dispatcher, for callgrind (tests/bench/instructions.sh)
$(BUILD)/tests/bench-calls: tests/bench/calls.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes -MMD -MP -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS) -lcmocka

# Without libFuzzer the same target file replays its corpus (tests/fuzz/replay.c has the main).
$(BUILD)/fuzz/%: tests/fuzz/%.c tests/fuzz/replay.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes -MMD -MP -MF $@.d $(LDFLAGS) -o $@ $< tests/fuzz/replay.c $(LIB) $(LDLIBS)

# With libFuzzer: scripts/build-fuzz.sh calls this with clang, its flags and a build folder of its own.
$(BUILD)/fuzz_%: tests/fuzz/fuzz_%.c $(LIB)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes $(LDFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LDLIBS)
fuzzers: $(FUZZ_SRCS:tests/fuzz/%.c=$(BUILD)/%)

check: all $(UNITS) $(FUZZ_REPLAY) ## minutes: unit tests, fuzz corpora, structure checks (SAN=address,undefined for sanitizers)
	@scripts/run-checks.sh $(BUILD)

fuzz: ## build the libFuzzer targets with clang into build-fuzz/ (run: build-fuzz/fuzz_NAME tests/fuzz/corpus/NAME)
	scripts/build-fuzz.sh

lint: ## formatting, include layers, one door per danger, cppcheck, shellcheck
	scripts/lint.sh

bench: all $(BUILD)/tests/bench-calls ## measure beside nfs-ganesha, nginx and the machine's limits; prints ratios
	tests/bench/bench.sh $(BUILD)/workspaced
	tests/bench/bench-http.sh $(BUILD)/workspaced

soak: all ## hours: the large scales
	scripts/soak.sh $(BUILD)

install: all ## install under $(DESTDIR)$(PREFIX)
	install -D -m 755 $(BUILD)/workspaced $(DESTDIR)$(PREFIX)/sbin/workspaced
	install -D -m 755 $(BUILD)/fuse-client $(DESTDIR)$(PREFIX)/bin/fuse-client
	ln -sf ../bin/fuse-client $(DESTDIR)$(PREFIX)/sbin/mount.fuse.workspaced
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local|$(PREFIX)|' scripts/workspaced.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/workspaced.service
	install -d $(DESTDIR)$(PREFIX)/share/doc/workspaced/docs
	install -m 644 README.md CONTRIBUTING.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/workspaced/
	install -m 644 docs/*.md $(DESTDIR)$(PREFIX)/share/doc/workspaced/docs/

uninstall: ## remove what install put there; data and settings stay
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,sbin/workspaced bin/fuse-client sbin/mount.fuse.workspaced lib/systemd/system/workspaced.service)
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/workspaced

clean: ## remove what was built
	rm -rf build build-*

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

-include $(LIB_OBJS:.o=.d) $(FUSE_OBJS:.o=.d) $(BUILD)/workspaced.d $(UNITS:=.d)
.PHONY: all check fuzz fuzzers lint bench soak install uninstall clean help
.SECONDARY:
