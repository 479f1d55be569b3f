// A CSI driver of node volumes, as far as a kubelet asks one: a volume is a directory in which a
// file `volume` names it. Nothing is mounted, so that the driver needs no privileges.
//
//	csi-files NODE
//
// It serves CSI on /csi/csi.sock and registers itself with kubelet on /registration, as
// node-driver-registrar does for others.
package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	name = "files.lab.example"
	// As kubelet sees it, which dials it.
	endpoint = "/var/lib/kubelet/plugins/" + name + "/csi.sock"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	node string
}

func main() {
	it := &driver{node: os.Args[1]}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, it)
	csi.RegisterNodeServer(server, it)
	go serve(server, "/csi/csi.sock")
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, it)
	serve(registrar, "/registration/"+name+"-reg.sock")
}

func serve(server *grpc.Server, path string) {
	// Of the process before it.
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	panic(server.Serve(listener))
}

func (it *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (it *driver) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		panic(status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (it *driver) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (it *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (it *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (it *driver) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: it.node}, nil
}

func (it *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (it *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if err := os.MkdirAll(request.TargetPath, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(request.TargetPath, "volume")
	if err := os.WriteFile(path, []byte(request.VolumeId), 0o644); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (it *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(request.TargetPath)
}
