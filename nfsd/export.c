/* SPDX-License-Identifier: MIT */
/*
 * The one place that decides whether a peer may use a workspace.  On loopback an address says
 * nothing, since every process of the machine has it: there the uid that owns the other end of the
 * connection decides.
 */
#include "nfsd/export.h"

void export_check(struct ws_registry *registry, const struct workspace *ws,
		  const struct nfs_peer *peer, struct export_verdict *ret)
{
	const struct export_rules *rules = ws_exports(registry, ws);
	bool read_only = rules->read_only;
	bool allowed;

	if (rules->n_nets == 0)
		allowed = peer->is_loopback;
	else
		allowed = export_rules_match(rules, &peer->addr, &read_only);
	if (peer->is_loopback && !peer->local_uid_ok)
		allowed = false;
	*ret = (struct export_verdict){
		.allowed = allowed,
		.read_only = read_only,
		.mode = rules->mode,
	};
}
