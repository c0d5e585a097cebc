/* load_scale.c -- subcommands; see load.h. */
#include "load.h"

int
scale_main(int argc, char **argv)
{
    (void)argc;
    die("no subcommand %s", argv[0]);
}
