// Command controlplane is every part of a Kubernetes control plane in one binary.
//
// The part is chosen by the name the binary is called by, so a folder of links
// (etcd, kube-apiserver, kubectl, ...) looks like an ordinary installation and
// costs the disk and the link time of one program.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	part := filepath.Base(os.Args[0])
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
	}[part]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: not a part of the control plane; call this binary by a link named after one\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
