"""`python -m agents.inference.bundle`: a helper that builds a bundle; serves a BundleRequest."""

from __future__ import annotations

import sys

from agents.inference.bundle.build import build_bundle
from agents.inference.bundle.recipe import recipe_named
from agents.inference.content import cache_folder
from controller.contracts.bundle import BuiltBundle, BundleRequest
from controller.platform.helper_main import Replies, serve


def handle(request: BundleRequest, replies: Replies) -> None:
    """Answer with a BuiltBundle; raises BundleUnbuildable."""
    bundle = build_bundle(cache_folder(), recipe_named(request.name), request.refresh)
    size = bundle.archive.stat().st_size
    replies.answer(BuiltBundle(name=bundle.name, archive=bundle.archive, archive_bytes=size))


if __name__ == "__main__":
    sys.exit(serve(BundleRequest, handle))
