"""``python -m cnp_router``: the command line."""

from cnp_router.cli import main

if __name__ == "__main__":
    main()
