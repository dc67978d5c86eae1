"""Flower as the carrier of a federation: programs that are started and watched, and two pipes of bytes.

A party executes nothing that the coordinator sends. Its SuperNode finds one program for messages on its PATH: `pipe`,
which passes bytes to the long-running `join` and back. The coordinator's ServerApp is the same in the other direction,
`serverapp`, to the long-running `coordinate`. These two files, `superlink` (which starts it with a wider tolerance of
clocks) and `bundle` (one function) import flwr; everything else starts its programs.

Private names of flwr that are relied on (a test each says when one moves): `flwr.supernode.runtime.run_clientapp` with
`install_from_fab`, `get_load_client_app_fn` and `run_clientapp`; `flwr.common.args.add_args_flwr_app_common` and
`try_obtain_flwr_app_token`; `flwr.supercore.tls.validate_and_resolve_root_certificates`;
`flwr.cli.build.build_fab_from_disk`; the commands of `flwr.supercore.constant.TASK_TYPE_TO_COMMAND`;
`flwr.superlink.cli.flower_superlink`; both tolerances of `flwr.superlink.routers.fleet.node_auth`.
"""
