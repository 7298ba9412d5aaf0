"""`benchfarm token …`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, checked, show_json, show_table
from controller.cli.meant import farm_client
from controller.contracts.administration import (
    NewToken,
    NewTokenRequest,
    TokenList,
    TokenRequest,
)
from controller.contracts.records import Scope
from controller.platform.terminal import say

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="User name, as shown with the user's sweeps.")]


@app.command()
def create(
    name: Name,
    scope: Annotated[
        Scope,
        typer.Option(
            help="A viewer reads, a submitter also submits sweeps, an administrator may do all."
        ),
    ] = Scope.SUBMITTER,
) -> None:
    """Create a user's token and print it once.

    Only its SHA-256 is stored.
    """
    asked = checked(NewTokenRequest, name=name, scope=scope)
    say(farm_client().administer(NewToken, "tokens", asked).token)


@app.command("list")
def list_tokens(json: Json = False) -> None:
    """List all tokens, without their secrets.

    Includes revoked ones.
    """
    tokens = farm_client().administer(TokenList, "tokens").tokens
    if json:
        show_json(tokens)
        return
    table = Table("name", "scope", "created", "revoked")
    for token in tokens:
        shown = token.model_dump(mode="json")
        table.add_row(token.name, token.scope, shown["created_at"], shown["revoked_at"] or "")
    show_table(table)


@app.command()
def revoke(name: Annotated[str, typer.Argument(help="User name; see `token list`.")]) -> None:
    """Revoke a user's token at once.

    The user's sweeps continue.
    """
    farm_client().administer(TokenList, "tokens/revoke", checked(TokenRequest, name=name))
    say(f"the token of {name} is revoked")
