"""`python -m regard`: the command, where its folder is not on the path."""

from regard.cli.main import main

if __name__ == "__main__":
    main()
