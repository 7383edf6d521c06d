// Command kwok is the simulator of nodes and pods, with the workers it forgets to start.
//
// A pod whose event arrives before its node's is passed over, and is to be looked at again when
// the node has arrived. Workers do that, as many as the option podsOnNodeSyncParallelism says,
// which kwok 0.8.0 loses between the file and its own configuration (the generated conversion
// does not know the field): there are none, and such a pod stays Pending for ever.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// A list of one node's pods is short; a few at a time keep up with nodes as they appear.
const podsOnNodeSyncWorkers = 4

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	// The command knows neither --config nor --v: they are read before it, past all its own flags.
	before := pflag.NewFlagSet("before the command", pflag.ContinueOnError)
	before.ParseErrorsAllowlist.UnknownFlags = true
	before.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), before)
	ctx, err := config.InitFlags(ctx, before)
	if err != nil {
		return err
	}
	options := &config.GetKwokConfiguration(ctx).Options
	options.PodsOnNodeSyncParallelism = podsOnNodeSyncWorkers
	options.EnablePodsOnNodeSyncListPager = true
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(before)
	return command.ExecuteContext(ctx)
}
