"""`regard completion`: shell completion of commands and options."""

from __future__ import annotations

import click


@click.command("completion", short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL: commands, options and file names.

    \b
    Install the script, then start a new shell:
      bash  regard completion bash > ~/.local/share/bash-completion/completions/regard
            (needs the bash-completion package; without it: >> ~/.bashrc)
      zsh   regard completion zsh > ~/.zfunc/_regard
            (with  fpath+=~/.zfunc; autoload -Uz compinit; compinit  in ~/.zshrc)
      fish  regard completion fish > ~/.config/fish/completions/regard.fish

    \b
    Examples:
      regard completion bash >> ~/.bashrc
      eval "$(regard completion zsh)"            for the current shell only
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "regard", "_REGARD_COMPLETE").source())
