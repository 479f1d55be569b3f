package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	userAgent = "bench-load"
	// Bytes; a list is megabytes, and each read is a system call.
	readBuffer = 256 << 10
)

// target is a server to ask: the API server, or who answers for it.
type target struct {
	server string
	tls    *tls.Config
	// Of a caller, "" without one.
	token string
}

// targetFlags are the same for every command; only one of the two is given.
type targetFlags struct{ server, kubeconfig, tokenFile string }

func (f *targetFlags) register(flags *flag.FlagSet, prefix, meaning string) {
	flags.StringVar(&f.server, prefix+"server", "", "http URL of "+meaning)
	flags.StringVar(&f.kubeconfig, prefix+"kubeconfig", "", "kubeconfig of "+meaning)
	flags.StringVar(&f.tokenFile, prefix+"token-file", "", "token for a server that asks its callers")
}

func (f *targetFlags) open() (target, error) {
	if (f.server == "") == (f.kubeconfig == "") {
		return target{}, errors.New("one of server and kubeconfig is needed")
	}
	if f.server != "" && f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		return target{server: f.server, token: string(token)}, err
	}
	if f.server != "" {
		return target{server: f.server}, nil
	}
	return readKubeconfig(f.kubeconfig)
}

// kubeconfig is what the test control plane writes: JSON, everything inside.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Certificate []byte `json:"client-certificate-data"`
			Key         []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

func readKubeconfig(path string) (target, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return target{}, err
	}
	var config kubeconfig
	if err := json.Unmarshal(content, &config); err != nil {
		return target{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return target{}, fmt.Errorf("%s: not one cluster and one user", path)
	}
	user, cluster := config.Users[0].User, config.Clusters[0].Cluster
	pair, err := tls.X509KeyPair(user.Certificate, user.Key)
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", path, err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(cluster.CA)
	return target{server: cluster.Server, tls: &tls.Config{
		RootCAs:      authorities,
		Certificates: []tls.Certificate{pair},
	}}, nil
}

// client has connections of its own, as a process of its own would; over TLS it
// speaks HTTP/2, as client-go does.
func (t target) client() *http.Client {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     t.tls.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		// Whoever wants gzip says so; decompressing is not what is measured.
		DisableCompression: true,
		ReadBufferSize:     readBuffer,
	}}
}

// request is one with the header that all have.
func (t target) request(method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequest(method, t.server+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "application/json")
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	return request, nil
}

// failure tells an answer that is none.
func failure(response *http.Response) error {
	start, _ := io.ReadAll(io.LimitReader(response.Body, 500))
	url := response.Request.URL
	return fmt.Errorf("%s %s: %s: %s", response.Request.Method, url, response.Status, start)
}

// drain reads to the end, so that the connection can be used again.
func drain(body io.ReadCloser) error {
	_, err := io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}
