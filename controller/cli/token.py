"""`benchfarm token …`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, checked, home, show_json, show_table
from controller.contracts.administration import NewToken, TokenList, TokenRequest
from controller.platform.terminal import say
from controller.runtime.client import FarmClient

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="User name, as shown with the user's sweeps.")]


@app.command()
def create(name: Name) -> None:
    """Create a user's token and print it once.

    Only its SHA-256 is stored.
    """
    made = FarmClient(home()).administer(NewToken, "tokens", checked(TokenRequest, name=name))
    say(made.token)


@app.command("list")
def list_tokens(json: Json = False) -> None:
    """List all tokens, without their secrets.

    Includes revoked ones.
    """
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
def revoke(name: Annotated[str, typer.Argument(help="User name; see `token list`.")]) -> None:
    """Revoke a user's token at once.

    The user's sweeps continue.
    """
    FarmClient(home()).administer(TokenList, "tokens/revoke", checked(TokenRequest, name=name))
    say(f"the token of {name} is revoked")
