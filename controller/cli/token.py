"""`benchfarm token …`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, checked, home, show_json, show_table
from controller.contracts.administration import NewToken, TokenList, TokenRequest
from controller.platform.terminal import say
from controller.runtime.client import FarmClient

app = typer.Typer(help="Tokens of those who submit sweeps.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Who is to have it: the user of the sweeps.")]


@app.command()
def create(name: Name) -> None:
    """Make a user's token and print it, this once: only its SHA-256 is kept."""
    made = FarmClient(home()).administer(NewToken, "tokens", checked(TokenRequest, name=name))
    say(made.token)


@app.command("list")
def list_tokens(json: Json = False) -> None:
    """List all tokens that were ever made, without what opens anything."""
    tokens = FarmClient(home()).administer(TokenList, "tokens").tokens
    if json:
        show_json(tokens)
        return
    table = Table("name", "created", "revoked")
    for token in tokens:
        shown = token.model_dump(mode="json")
        table.add_row(token.name, shown["created_at"], shown["revoked_at"] or "")
    show_table(table)


@app.command()
def revoke(name: Annotated[str, typer.Argument(help="Whose it is; see token list.")]) -> None:
    """End a user's token at once; the user's sweeps go on."""
    FarmClient(home()).administer(TokenList, "tokens/revoke", checked(TokenRequest, name=name))
    say(f"the token of {name} is revoked")
