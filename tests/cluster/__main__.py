"""The cluster and the images that tests run on: `python -m tests.cluster up`."""

import argparse
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .tooling import cluster, daemon, enginevenv, gotools, images, loading, prometheus
from .tooling.places import BIN, CACHE, DOCKER, KUBECONFIG, use_cache
from .tooling.steps import StepFailedError, step

LOCK = CACHE.with_name(f"{CACHE.name}.lock")
TOOLS = {"helm": lambda: gotools.build("helm"), "prometheus": prometheus.provide}
"""What tests of the chart and of its rules run; they need no cluster."""


def main() -> int:
    """Run one command; a failed step is one sentence on standard error."""
    arguments = _parser().parse_args()
    use_cache()
    try:
        with _alone():
            arguments.command(arguments)
    except StepFailedError as failure:
        print(f"tests.cluster: {failure}", file=sys.stderr)
        return 1
    return 0


def _up(arguments: argparse.Namespace) -> None:
    with step("cluster up, in all"):
        cluster.up()
    for name in arguments.with_tools:
        TOOLS[name]()


def _tools(arguments: argparse.Namespace) -> None:
    for provide in TOOLS.values():
        provide()


def _down(arguments: argparse.Namespace) -> None:
    if daemon.has_data() and daemon.choice() != "machine":
        daemon.start()
        cluster.delete()
        daemon.stop()
    elif shutil.which("docker"):
        cluster.delete()
        if arguments.purge:
            images.remove()
    daemon.forget()
    if arguments.purge:
        with step(f"remove {CACHE}"):
            shutil.rmtree(CACHE)
            LOCK.unlink()


def _images(arguments: argparse.Namespace) -> None:
    stock = daemon.choose()
    for name in images.BUILT_HERE:
        made = [images.build(name, stock=stock)]
        if arguments.previous:
            made.append(images.build_previous(name, stock=stock))
        for image in made if cluster.is_running() else ():
            loading.load(image)


def _load(arguments: argparse.Namespace) -> None:
    daemon.choose()
    for image in arguments.images:
        loading.load(image)


def _engine(arguments: argparse.Namespace) -> None:
    enginevenv.install()


def _status(arguments: argparse.Namespace) -> None:
    if daemon.is_chosen():
        daemon.use_own()
    for name, value in cluster.describe().items():
        print(f"{name:12} {value}")


def _env(arguments: argparse.Namespace) -> None:
    """Print what a shell needs to reach the same daemon and cluster."""
    print(f'export PATH="{BIN}:$PATH:{DOCKER}/usr/bin" KUBECONFIG="{KUBECONFIG}"')
    if daemon.is_chosen():
        print(f'export DOCKER_HOST="{daemon.SOCKET}"')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)

    up = commands.add_parser("up", help="make the cluster, or bring it back; safe to repeat")
    up.add_argument(
        "--with", dest="with_tools", action="append", default=[], choices=list(TOOLS), help="provide it too"
    )
    up.set_defaults(command=_up)

    down = commands.add_parser("down", help="delete the cluster and stop the daemon started here")
    down.add_argument("--purge", action="store_true", help="remove the cache and the images built here too")
    down.set_defaults(command=_down)

    build = commands.add_parser(
        "images", help="build the images whose inputs changed, and put them onto the node"
    )
    build.add_argument("--previous", action="store_true", help="and those of the release before")
    build.set_defaults(command=_images)

    load = commands.add_parser("load", help="put images onto the node, unless they are there")
    load.add_argument("images", nargs="+", metavar="IMAGE")
    load.set_defaults(command=_load)

    commands.add_parser("tools", help=f"provide {' and '.join(TOOLS)} alone").set_defaults(command=_tools)
    commands.add_parser("engine", help="install the CPU engine on this machine").set_defaults(command=_engine)
    commands.add_parser("status", help="say how daemon and cluster are").set_defaults(command=_status)
    commands.add_parser("env", help="print settings for a shell: eval $(... env)").set_defaults(command=_env)
    return parser


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for another run of this command: two at a time would build and create the same things."""
    while True:
        with LOCK.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The run before may have removed the file: a lock on it holds nobody off.
            if LOCK.exists() and os.path.samestat(os.fstat(file.fileno()), LOCK.stat()):
                yield
                return


if __name__ == "__main__":
    sys.exit(main())
