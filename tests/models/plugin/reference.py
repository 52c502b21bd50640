"""The sum of a tensor with itself and with a number that an executable plugin has."""

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY)
PLUGINS = "../../../runtime/tests/fixtures/system"


def cases():
    inputs = ["4xf32=1,2,3,4"]
    return [
        fixture.Case("library", plugins=(f"{PLUGINS}/plugin.so",)).call("offset", inputs, ["4xf32=102,104,106,108"]),
        fixture.Case("standalone", plugins=(f"{PLUGINS}/plugin.sos",)).call("offset", inputs, ["4xf32=1002,1004,1006,1008"]),
        fixture.Case("the_last_wins", plugins=(f"{PLUGINS}/plugin.sos", f"{PLUGINS}/plugin.so")).call(
            "offset", inputs, ["4xf32=102,104,106,108"]
        ),
    ]
