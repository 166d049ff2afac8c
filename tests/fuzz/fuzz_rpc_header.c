/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a call header.  What is accepted must lie inside the input and be read back the same
 * when it is written again; what is rejected must have an answer that fits.
 */
#include <string.h>

#include "fuzz.h"
#include "proto/rpc_header.h"

static void write_again(const struct rpc_call_header *h)
{
	uint8_t bytes[512];
	struct rpc_call_header again;
	size_t n = rpc_write_call(bytes, sizeof(bytes), h, "again");

	MUST(n > 0);
	MUST(rpc_parse_call(bytes, n, &again) == RPC_CALL_OK);
	MUST(again.xid == h->xid && again.prog == h->prog && again.vers == h->vers &&
	     again.proc == h->proc && again.args_len == 0);
	MUST(again.cred.flavor == h->cred.flavor && again.cred.n_gids == h->cred.n_gids);
	MUST(again.cred.uid == h->cred.uid && again.cred.gid == h->cred.gid);
	MUST(memcmp(again.cred.gids, h->cred.gids, h->cred.n_gids * sizeof(uint32_t)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_call_header h;
	uint8_t reply[RPC_REPLY_MAX];
	enum rpc_parse rc = rpc_parse_call(data, size, &h);

	if (rc == RPC_CALL_OK) {
		MUST(h.args >= data && h.args + h.args_len == data + size);
		MUST(h.cred.n_gids <= RPC_SYS_GIDS);
		write_again(&h);
		MUST(rpc_reply_accepted(reply, h.xid, RPC_ACCEPT_OK, 0, 0) == RPC_REPLY_HEADER_LEN);
	} else if (rc != RPC_IGNORE) {
		MUST(rpc_reply_rejected(reply, h.xid, rc) <= sizeof(reply));
		MUST(memcmp(reply, data, 4) == 0);
	}
	return 0;
}
