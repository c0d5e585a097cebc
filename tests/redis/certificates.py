"""certificates.py -- authorities and certificates for a test, made by openssl in its directory."""
import os
import subprocess
import time


def stamp(seconds):
    """The time in `seconds` from now, in openssl's format."""
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))


class Authority:
    """An authority that signs certificates; clients trust `name.pem`."""

    def __init__(self, directory, name="ca"):
        self.dir = os.path.join(directory, name)
        os.mkdir(self.dir)
        self.pem, self.key = os.path.join(self.dir, "ca.pem"), os.path.join(self.dir, "ca.key")
        self.made = 0
        self.openssl("req", "-x509", *self.NEW_KEY, "-keyout", self.key, "-out", self.pem, "-days", "2", "-subj",
                     "/CN=test %s" % name)

    NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, cwd=self.dir)
        if done.returncode != 0:
            raise AssertionError("openssl %s: %s" % (" ".join(words), done.stderr))

    def certificate(self, name, names="DNS:localhost,IP:127.0.0.1", begin=-3600, end=86400):
        """The paths of a certificate and its key; valid from `begin` to `end` seconds from now."""
        self.made += 1
        base = os.path.join(self.dir, "%s-%d" % (name, self.made))
        with open(base + ".cnf", "w") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\nnew_certs_dir=.\ndatabase=index.txt\nserial=serial\ndefault_md=sha256\n"
                    "policy=p\nunique_subject=no\ncopy_extensions=copy\n[p]\ncommonName=supplied\n")
        with open(os.path.join(self.dir, "index.txt"), "a"):
            pass
        with open(os.path.join(self.dir, "serial"), "w") as f:
            f.write("%04x\n" % (0x1000 + self.made))
        self.openssl("req", *self.NEW_KEY, "-keyout", base + ".key", "-out", base + ".csr", "-subj", "/CN=" + name,
                     *(["-addext", "subjectAltName=" + names] if names else []))
        self.openssl("ca", "-batch", "-config", base + ".cnf", "-cert", self.pem, "-keyfile", self.key, "-in",
                     base + ".csr", "-out", base + ".pem", "-notext", "-startdate", stamp(begin), "-enddate",
                     stamp(end))
        return base + ".pem", base + ".key"

    def revocation_list(self):
        """The path of a list of revoked certificates that has none."""
        base = os.path.join(self.dir, "revoked")
        with open(base + ".cnf", "w") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ndefault_md=sha256\n")
        with open(os.path.join(self.dir, "index.txt"), "a"):
            pass
        self.openssl("ca", "-gencrl", "-config", base + ".cnf", "-cert", self.pem, "-keyfile", self.key, "-crldays",
                     "1", "-out", base + ".pem")
        return base + ".pem"
